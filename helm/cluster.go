package helm

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"addon-operator/helm/kinds"
	"addon-operator/helm/manifest"
)

// writeWidth is how many objects of one kind are written at the same time.
const writeWidth = 8

// cluster is what an action of Helm sees of Kubernetes. Each action has one of its own. The action
// calls it from one goroutine; only the functions that are given to updateByKind run in parallel. It is Helm's own
// client except for
//   - Build, which sets labels and keeps one connection per API group;
//   - updates, which change the objects of one kind at the same time;
//   - what happens to objects that left the chart: leftovers of failed revisions
//     go too, objects that belong to another release now stay;
//   - hooks of the chart: their waits end with the operation, and they replace nothing of others (hooks.go).
type cluster struct {
	*kube.Client
	op *operation

	applying bool              // the first manifest that Helm builds is the one to apply; set by Apply
	target   string            // that manifest, once known
	earlier  string            // the manifest of a failed first revision, whose objects may exist
	gone     []Object          // left the chart; Update deletes them at its end
	heals    bool              // only objects are put back: the manifest is that of the last revision
	presumed bool              // the objects do not exist, as far as is known: they were not looked up
	existing atomic.Bool       // one of them does
	made     kube.ResourceList // those that were created
	refused  error             // why an object was not deleted, which Helm returns as text
	hook     kube.ResourceList // the objects of the hook that was built last
}

var (
	_ kube.Interface                    = (*cluster)(nil)
	_ kube.InterfaceExt                 = (*cluster)(nil)
	_ kube.InterfaceThreeWayMerge       = (*cluster)(nil)
	_ kube.InterfaceDeletionPropagation = (*cluster)(nil)
	_ kube.InterfaceLogs                = (*cluster)(nil)
)

// IsReachable implements kube.Interface. It answers from the context, because the operation has
// sent requests a moment ago; Helm's own requests the version of the API server.
func (k *cluster) IsReachable() error { return k.op.ctx.Err() }

// Build implements kube.Interface. The manifest to apply, and hooks (which are built with validation), must consist
// of known kinds. An older manifest may name kinds in versions that the API server no longer serves. Their objects
// are found in another version of the group; if there is none they cannot be deleted, and insisting on them would
// block the release forever. Kinds of an API whose server does not answer are an error in both.
func (k *cluster) Build(manifest io.Reader, validate bool) (kube.ResourceList, error) {
	data, err := io.ReadAll(manifest)
	if err != nil {
		return nil, err
	}
	text := string(data)
	if k.applying && k.target == "" {
		k.target = text
	}
	list, err := k.op.build(text, validate || k.applying && text == k.target)
	if validate { // only hooks are
		k.hook = list
	}
	return list, err
}

// build makes the objects of one manifest; strict makes unknown kinds an error, and is set for what
// is going to be written. All errors are joined, so that a person sees them at once.
func (op *operation) build(text string, strict bool) (kube.ResourceList, error) {
	objects, err := manifest.Parse(text)
	if err != nil {
		return nil, err
	}
	op.keepSecrets(objects)
	list := make(kube.ResourceList, 0, len(objects))
	var errs []error
	for _, o := range objects {
		op.label(o, strict)
		if served, err := op.home.kinds.Served(o.GroupVersionKind()); err == nil && !strict {
			o.SetGroupVersionKind(served.GroupVersionKind)
		}
		info, err := op.info(o)
		switch {
		// A plan installs no definitions, so it may lack a kind that Apply will have.
		case meta.IsNoMatchError(err) && op.home.dry != nil && strict:
			op.home.dry.Note(Change{Object: manifest.Of(o), Verb: Created, Note: NoteKind, After: o.Object})
		case meta.IsNoMatchError(err) && !strict:
			op.unserve(manifest.Of(o))
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", manifest.Of(o), err))
		default:
			list = append(list, info)
		}
	}
	return list, errors.Join(errs...)
}

// info completes an object as it is sent: with its namespace and the labels of Options. The error
// is a no-match error for an unknown kind, and an AwayError where that is not known.
func (op *operation) info(o *unstructured.Unstructured) (*resource.Info, error) {
	m, err := op.home.kinds.Mapping(o.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	client, err := op.clientFor(m.GroupVersionKind.GroupVersion())
	if err != nil {
		return nil, err
	}
	if !kinds.Namespaced(m) {
		o.SetNamespace("")
	} else if o.GetNamespace() == "" {
		o.SetNamespace(op.home.options.Namespace)
	}
	return &resource.Info{Client: client, Mapping: m, Namespace: o.GetNamespace(), Name: o.GetName(), Object: o}, nil
}

// label sets labels on the object itself, never in selectors or templates, which are immutable or would restart pods.
// What the chart sets wins, because charts select objects by "heritage" (H10), but for MarkLabel. Objects of older
// manifests, with which Helm compares, do not get that one (mark): otherwise it would seem to be unchanged, and not be
// written to objects that lack it.
func (op *operation) label(o *unstructured.Unstructured, mark bool) {
	all := map[string]string{}
	if !op.unmarked {
		maps.Copy(all, op.home.options.Labels)
	}
	maps.Copy(all, o.GetLabels())
	if delete(all, MarkLabel); mark && !op.unmarked {
		all[MarkLabel] = op.release
	}
	if len(all) == 0 {
		all = nil
	}
	o.SetLabels(all)
}

// Create implements kube.Interface for installs. Where it was only presumed that the objects do not exist, one that
// does ends the install (existing): the next step looks at all of them before it writes.
func (k *cluster) Create(list kube.ResourceList) (*kube.Result, error) {
	if len(list) > 0 && len(k.hook) > 0 && list[0] == k.hook[0] { // Helm creates the objects of hooks with it, too
		return k.createHook(list)
	}
	if !k.presumed {
		return k.Client.Create(list)
	}
	made, err := k.updateByKind(nil, list, func(_, one kube.ResourceList) (*kube.Result, error) {
		created, err := k.Client.Create(one)
		if err == nil {
			return created, nil
		}
		if apierrors.IsAlreadyExists(err) {
			k.existing.Store(true)
		}
		return &kube.Result{}, fmt.Errorf("cannot create %s: %w", objectOfInfo(one[0]), onlyError(err))
	})
	k.made = made.Created
	return made, err
}

// onlyError takes the error of one object out of the list that Helm makes of it.
func onlyError(err error) error {
	var list interface{ WrappedErrors() []error }
	if errors.As(err, &list) && len(list.WrappedErrors()) == 1 {
		return list.WrappedErrors()[0]
	}
	return err
}

// Update implements kube.Interface for upgrades. What has left the chart is deleted here and not by Helm, which
// forgets what it cannot delete, and deletes what does not belong to the release (P2).
func (k *cluster) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	var err error
	if k.heals {
		if original, err = k.withoutEnded(original); err == nil {
			target, err = k.withoutEnded(target)
		}
	}
	if err != nil {
		return &kube.Result{}, err
	}
	result, err := k.updateByKind(original, target, func(original, target kube.ResourceList) (*kube.Result, error) {
		if k.op.merge3 {
			return k.Client.UpdateThreeWayMerge(original, target, force)
		}
		return k.Client.Update(original, target, force)
	})
	if err != nil {
		return result, err
	}
	if err = k.op.remove(k.gone); err == nil {
		k.op.reportUnserved()
	}
	return result, err
}

// updateByKind lets Helm change objects one by one, those of one kind at the same time. As in Helm, an object that
// cannot be changed does not stop the others, and one that cannot be created does. change is called with one object of
// target; several goroutines call it.
func (k *cluster) updateByKind(original, target kube.ResourceList, change func(original, target kube.ResourceList) (*kube.Result, error)) (*kube.Result, error) {
	all := &kube.Result{}
	var refused []error
	for _, same := range byKind(target) {
		results := make([]*kube.Result, len(same))
		errs := make([]error, len(same))
		// Helm may pass an object in both lists and writes to it what the cluster answers: all are compared before.
		before := make([]kube.ResourceList, len(same))
		for i, info := range same {
			before[i] = original.Intersect(kube.ResourceList{info})
		}
		var group errgroup.Group
		group.SetLimit(writeWidth)
		for i, info := range same {
			group.Go(func() error {
				results[i], errs[i] = change(before[i], kube.ResourceList{info})
				return nil
			})
		}
		_ = group.Wait() // errs has them all
		stop := false
		for i, r := range results {
			all.Created, all.Updated = append(all.Created, r.Created...), append(all.Updated, r.Updated...)
			// Helm lists an object among the updated ones even when its update has failed.
			stop = stop || errs[i] != nil && len(r.Updated) == 0
		}
		if refused = append(refused, errors.Join(errs...)); stop {
			break
		}
	}
	return all, errors.Join(refused...)
}

// byKind cuts a list, which Helm has sorted, where the kind changes.
func byKind(list kube.ResourceList) []kube.ResourceList {
	var groups []kube.ResourceList
	for _, info := range list {
		last := len(groups) - 1
		if last < 0 || groups[last][0].Mapping.GroupVersionKind.Kind != info.Mapping.GroupVersionKind.Kind {
			groups = append(groups, nil)
			last++
		}
		groups[last] = append(groups[last], info)
	}
	return groups
}

// UpdateThreeWayMerge implements kube.InterfaceThreeWayMerge for installs over existing objects.
// Helm passes the new manifest as the base of the merge, so fields that only the failed revision
// set would stay forever; the manifest of that revision is a better base.
func (k *cluster) UpdateThreeWayMerge(adopted, target kube.ResourceList, force bool) (*kube.Result, error) {
	older, err := k.op.build(k.earlier, false)
	if err != nil {
		return &kube.Result{}, err
	}
	base := slices.Clone(adopted)
	for i, info := range base {
		if known := older.Get(info); known != nil {
			base[i] = known
		}
	}
	return k.updateByKind(base, target, func(original, target kube.ResourceList) (*kube.Result, error) {
		return k.Client.UpdateThreeWayMerge(original, target, force)
	})
}

// DeleteWithPropagationPolicy implements kube.InterfaceDeletionPropagation for uninstalls: Helm would also delete what
// does not belong to the release (P2), and returns no reason why an object could not be deleted.
func (k *cluster) DeleteWithPropagationPolicy(kube.ResourceList, metav1.DeletionPropagation) (*kube.Result, []error) {
	if k.refused = k.op.removeAll([]string{k.op.uninstalls}, nil); k.refused != nil {
		return &kube.Result{}, []error{k.refused}
	}
	return &kube.Result{}, nil
}

func objectOfInfo(info *resource.Info) Object {
	return Object{GVK: info.Mapping.GroupVersionKind, Namespace: info.Namespace, Name: info.Name}
}
