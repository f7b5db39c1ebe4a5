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

	"addon-operator/helm/dryrun"
	"addon-operator/helm/kinds"
	"addon-operator/helm/manifest"
)

// writeWidth is how many objects of one kind are written at the same time.
const writeWidth = 8

// cluster is what an action of Helm sees of Kubernetes. Each action has one of its own. The action
// calls it from one goroutine; only the functions that are given to updateByKind run in parallel,
// and they write no field. It is Helm's own client except for
//   - Build, which sets labels and keeps one connection per API group;
//   - updates, which change the objects of one kind at the same time;
//   - what happens to objects that left the chart: leftovers of failed revisions
//     go too, objects that belong to another release now stay;
//   - hooks of the chart: their waits end with the operation, and they replace nothing of others (hooks.go).
type cluster struct {
	*kube.Client
	op *operation

	applying  bool     // the first manifest that Helm builds is the one to apply; set by Apply
	target    string   // that manifest, once known
	earlier   []string // manifests of a failed first revision, whose objects may exist
	gone      []Object // left the chart; Update deletes them at its end
	heals     bool     // only objects are put back: the manifest is that of the last revision
	presumed  bool     // the objects do not exist, as far as is known: they were not looked up
	withdrawn error    // why an install was taken back as a whole
	refused   error    // why an object was not deleted, which Helm returns as text
	builder   *builder
	hook      kube.ResourceList // the objects of the hook that was built last
}

// builder makes objects of manifests.
type builder struct {
	op *operation
	// secrets are the texts of Secrets in all manifests that were built, older revisions included.
	// No error and no message of a Pod shows them.
	secrets []string
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

// Build implements kube.Interface. The manifest to apply, and hooks (which are built with
// validation), must consist of known kinds. An older manifest may name kinds in versions that the API server no
// longer serves. Their objects are found in another version of the group; if there is none they cannot be deleted, and
// insisting on them would block the release forever. Kinds of an API whose server does not answer are an error in both.
func (k *cluster) Build(manifest io.Reader, validate bool) (kube.ResourceList, error) {
	data, err := io.ReadAll(manifest)
	if err != nil {
		return nil, err
	}
	text := string(data)
	if k.applying && k.target == "" {
		k.target = text
	}
	list, err := k.builder.build(text, validate || k.applying && text == k.target)
	if validate { // only hooks are
		k.hook = list
	}
	return list, err
}

// build makes the objects of one manifest; strict makes unknown kinds an error, and is set for what
// is going to be written. All errors are joined, so that a person sees them at once.
func (b *builder) build(text string, strict bool) (kube.ResourceList, error) {
	objects, err := manifest.Parse(text)
	if err != nil {
		return nil, err
	}
	b.secrets = append(b.secrets, secretTexts(objects)...)
	list := make(kube.ResourceList, 0, len(objects))
	var errs []error
	for _, o := range objects {
		b.op.mark(o, strict && !b.op.unmarked)
		if served, err := b.op.home.kinds.Served(o.GroupVersionKind()); err == nil && !strict {
			o.SetGroupVersionKind(served)
		}
		info, err := b.info(o)
		switch {
		// A plan installs no definitions, so it may lack a kind that Apply will have.
		case meta.IsNoMatchError(err) && b.op.home.dry != nil && strict:
			b.op.home.dry.Note(dryrun.Change{Object: manifest.Of(o), Verb: dryrun.Created, Note: dryrun.NoteKind, After: o.Object})
		case meta.IsNoMatchError(err) && !strict:
			b.op.unserve(manifest.Of(o))
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
func (b *builder) info(o *unstructured.Unstructured) (*resource.Info, error) {
	m, err := b.op.home.kinds.Mapping(o.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	client, err := b.op.clientFor(m.GroupVersionKind.GroupVersion())
	if err != nil {
		return nil, err
	}
	if !kinds.Namespaced(m) {
		o.SetNamespace("")
	} else if o.GetNamespace() == "" {
		o.SetNamespace(b.op.home.options.Namespace)
	}
	if !b.op.unmarked {
		addLabels(o, b.op.home.options.Labels)
	}
	return &resource.Info{Client: client, Mapping: m, Namespace: o.GetNamespace(), Name: o.GetName(), Object: o}, nil
}

// addLabels sets labels on the object itself, never in selectors or templates,
// which are immutable or would restart pods. What the chart sets wins: charts
// select objects by "heritage" (H10).
func addLabels(o *unstructured.Unstructured, labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	all := maps.Clone(labels)
	maps.Copy(all, o.GetLabels())
	o.SetLabels(all)
}

// Create implements kube.Interface for installs. Where it was only presumed that
// the objects do not exist, one that does is adopted (H7), or all is taken back
// when it belongs to another release.
func (k *cluster) Create(list kube.ResourceList) (*kube.Result, error) {
	if len(list) > 0 && len(k.hook) > 0 && list[0] == k.hook[0] { // Helm creates the objects of hooks with it, too
		return k.createHook(list)
	}
	if !k.presumed {
		return k.Client.Create(list)
	}
	var refused, existing atomic.Bool
	result, err := k.updateByKind(nil, list, func(_, one kube.ResourceList) (*kube.Result, error) {
		created, err := k.Client.Create(one)
		if err == nil {
			return created, nil
		}
		if apierrors.IsAlreadyExists(err) {
			existing.Store(true)
		} else {
			refused.Store(true)
		}
		return &kube.Result{}, fmt.Errorf("cannot create %s: %w", objectOfInfo(one[0]), onlyError(err))
	})
	if !existing.Load() || refused.Load() {
		return result, err // the next attempt finds a failed revision, and looks before it writes
	}
	return k.adopt(result.Created, list.Difference(result.Created))
}

// onlyError takes the error of one object out of the list that Helm makes of it.
func onlyError(err error) error {
	var list interface{ WrappedErrors() []error }
	if errors.As(err, &list) && len(list.WrappedErrors()) == 1 {
		return list.WrappedErrors()[0]
	}
	return err
}

// adopt continues an install when some of its objects turned out to exist. created are those that
// it has created, rest all others: objects that exist, and those whose turn has not come.
func (k *cluster) adopt(created, rest kube.ResourceList) (*kube.Result, error) {
	objects := make([]Object, len(rest))
	for i, info := range rest {
		objects[i] = objectOfInfo(info)
	}
	found, err := k.op.owners(objects, true)
	if foreign, ok := errors.AsType[*Error](err); ok && foreign.Kind == Foreign {
		k.withdrawn = errors.Join(err, k.withdraw(created))
		return &kube.Result{}, k.withdrawn
	}
	if err != nil {
		return &kube.Result{Created: created}, err
	}
	existing := rest.Filter(func(info *resource.Info) bool {
		_, exists := found[objectOfInfo(info)]
		return exists
	})
	result, err := k.UpdateThreeWayMerge(existing, rest, false)
	result.Created = append(created, result.Created...)
	return result, err
}

// withdraw deletes what was created a moment ago, the last one first. Its UID is a precondition, so
// an object that another client has created under the same name since then stays.
func (k *cluster) withdraw(created kube.ResourceList) error {
	var errs []error
	background := metav1.DeletePropagationBackground
	for _, info := range slices.Backward(created) {
		made, err := meta.Accessor(info.Object)
		if err != nil {
			return err
		}
		uid := made.GetUID()
		o := &metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid}}
		_, err = resource.NewHelper(info.Client, info.Mapping).DeleteWithOptions(info.Namespace, info.Name, o)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("delete %s, which was just created: %w", objectOfInfo(info), err))
		}
	}
	return errors.Join(errs...)
}

// Update implements kube.Interface for upgrades. What has left the chart is deleted here and not by Helm, which forgets
// what it cannot delete, and deletes what does not belong to the release (P2).
func (k *cluster) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	var err error
	if k.heals {
		if original, err = k.withoutEnded(original); err == nil {
			target, err = k.withoutEnded(target)
		}
	}
	if err == nil {
		original, err = k.madeFrom(original, k.op.takes.manifests, k.op.takes.from)
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
	var done atomic.Int64
	for _, same := range byKind(target) {
		results := make([]*kube.Result, len(same))
		errs := make([]error, len(same))
		var group errgroup.Group
		group.SetLimit(writeWidth)
		for i, info := range same {
			group.Go(func() error {
				one := kube.ResourceList{info}
				results[i], errs[i] = change(original.Intersect(one), one)
				if n := int(done.Add(1)); k.op.progress != nil {
					k.op.progress(n, len(target))
				}
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
// set would stay forever; the manifest of that revision is a better base for objects that are ours.
func (k *cluster) UpdateThreeWayMerge(adopted, target kube.ResourceList, force bool) (*kube.Result, error) {
	base, err := k.madeFrom(adopted, k.earlier, map[owner]bool{k.op.us(): true})
	if err == nil {
		base, err = k.madeFrom(base, k.op.takes.manifests, k.op.takes.from)
	}
	if err != nil {
		return &kube.Result{}, err
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

// ownerOf reads the owner of an object. It is zero for an object that has none, does not exist, or
// may not be read.
func (k *cluster) ownerOf(info *resource.Info) (owner, error) {
	live, _, err := k.op.home.look(k.op.ctx, objectOfInfo(info))
	return ownerIn(live), err
}

func objectOfInfo(info *resource.Info) Object {
	return Object{GVK: info.Mapping.GroupVersionKind, Namespace: info.Namespace, Name: info.Name}
}
