package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"addon-operator/helm/manifest"
)

// HookAnnotation is on the objects of Helm hooks: the revision that they were created for, the
// checksum of their manifest, and the release. It distinguishes an object of this run from one of an
// earlier run: clocks differ, and a record cannot have the UID of an object that is created after it
// was written.
const HookAnnotation = "addon-operator/helm-hook"

// keep is what an operation does with a hook that an earlier one has begun.
type keep string

const (
	keepNothing keep = ""        // it runs, as in Helm
	keepRunning keep = "running" // its objects are there: it is waited for, and not created
	keepDone    keep = "done"    // it has succeeded, and does not run again
)

// built is what Build was called for last. Helm builds a hook right before it deletes, creates or
// awaits it, but passes only the list to these calls: this is how the text of the hook is known.
type built struct {
	text string
	list kube.ResourceList
}

// is reports whether a list is the one that was built last.
func (b built) is(list kube.ResourceList) bool {
	return len(list) > 0 && len(b.list) > 0 && list[0] == b.list[0]
}

// helmHooks are the hooks of Helm that one action runs (H14).
//
// An operation may end while a hook has not: at its timeout, because newer values are due, or
// because the operator stops or dies. The Job or Pod continues. When the next operation wants the
// same manifest, it continues with the same revision (StepResume): hooks that have succeeded do not
// run again, and the one that has not finished is neither deleted nor created, but waited for.
// Where another manifest is wanted, or the hook has failed or is gone, a new revision begins, whose
// hooks run from the beginning.
type helmHooks struct {
	op       *operation
	client   *kube.Client
	builder  *builder
	releases *store
	built    built
	keeps    map[string]keep // of an earlier operation, by the text of the hook
	refused  error           // why an object was not deleted, which Helm returns as text
	cut      *waitError      // why the action stopped to wait; from then on no object of a hook is deleted
}

// kept is what to do with the hook that was built last.
func (r *helmHooks) kept(list kube.ResourceList) keep {
	if !r.built.is(list) {
		return keepNothing
	}
	return r.keeps[r.built.text]
}

// passed ends the special treatment of a hook that was waited for: what Helm does with it from now
// on, such as its deletion by policy, is done. A hook with two events runs again for the second.
func (r *helmHooks) passed(list kube.ResourceList) {
	if r.built.is(list) {
		delete(r.keeps, r.built.text)
	}
}

// spares reports that objects of hooks must not be deleted: they are kept from an earlier
// operation, or a hook that has not finished needs them.
func (r *helmHooks) spares(list kube.ResourceList) bool {
	return r.cut != nil || r.kept(list) != keepNothing
}

// Delete implements kube.Interface. Helm deletes objects of hooks with it, before it creates them
// again and when their policy requires it.
func (k *cluster) Delete(list kube.ResourceList) (*kube.Result, []error) {
	if k.hooks.spares(list) {
		return &kube.Result{}, nil
	}
	if err := k.hooks.ownLeftovers(list); err != nil {
		k.hooks.refused = err
		return &kube.Result{}, []error{err}
	}
	return k.Client.Delete(list)
}

// ownLeftovers refuses a list with an object that no hook of this release has left (H7): Helm would delete it, only
// because a hook has its name.
func (r *helmHooks) ownLeftovers(list kube.ResourceList) error {
	var errs []error
	for _, info := range list {
		o := objectOfInfo(info)
		live, exists, err := r.op.home.live.look(r.op.ctx, o)
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		why, err := notOfHook(r.op, live)
		if err != nil {
			return err
		}
		if why != "" {
			errs = append(errs, fmt.Errorf("a Helm hook of the chart would replace %s, but %s; "+
				"rename the hook, or delete the object if nobody needs it", o, why))
		}
	}
	if len(errs) > 0 {
		return &Error{Kind: Foreign, Release: r.op.release, Err: errors.Join(errs...)}
	}
	return nil
}

// notOfHook returns why an object is not one that a hook of this release has left. Helm and older operators do not
// name the release of a hook; what they have left may be ours. A release that is gone, or has no module any more
// (Module.Orphaned), is in nobody's way.
func notOfHook(op *operation, live *metav1.PartialObjectMetadata) (why string, err error) {
	if live == nil {
		return "the operator may not read it, so its owner is unknown", nil
	}
	them := ownerIn(live)
	if isOther(them, op.us()) {
		return fmt.Sprintf("it belongs to release %s in namespace %s", them.name, them.namespace), nil
	}
	if live.Annotations[release.HookAnnotation] == "" && live.Annotations[HookAnnotation] == "" && them != op.us() {
		return "no Helm hook has made it: it has no annotation " + release.HookAnnotation, nil
	}
	mark := strings.SplitN(live.Annotations[HookAnnotation], "-", 3)
	if len(mark) < 3 || mark[2] == op.release {
		return "", nil
	}
	if op.takes.orphaned != nil {
		if orphaned, err := op.takes.orphaned(mark[2]); err != nil || orphaned {
			return "", err
		}
	}
	home, err := op.home.homes.holding(op.ctx, mark[2])
	if err != nil {
		return "", err
	}
	if state, err := home.records.read(op.ctx, mark[2]); err != nil || len(state.Revisions) == 0 {
		return "", err
	}
	return "it is of a Helm hook of release " + mark[2], nil
}

// annotate marks an object of a hook.
func (r *helmHooks) annotate(info *resource.Info, text string) {
	o, ok := info.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[HookAnnotation] = hookMark(r.releases.revision(), text, r.op.release)
	o.SetAnnotations(all)
}

func hookMark(revision int, text, release string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%d-%s-%s", revision, hex.EncodeToString(sum[:checksumBytes]), release)
}

// resume finds hooks of a record that an operation began and whose end it did not wait for. It keeps
// their objects, and those hooks before them that have succeeded and that ranOnce accepts. It
// returns the Jobs and Pods to wait for; none: there is nothing to continue, because no hook was
// begun, its objects are gone, or one of them has failed.
func (r *helmHooks) resume(rel *release.Release, ranOnce func(*release.Hook) bool) (waiting []string, err error) {
	keeps := map[string]keep{}
	for _, h := range rel.Hooks {
		switch {
		case h.LastRun.StartedAt.IsZero() || isTest(h):
		case h.LastRun.Phase == release.HookPhaseSucceeded:
			if ranOnce(h) {
				keeps[h.Manifest] = keepDone
			}
		default:
			live, all, err := r.made(rel, h)
			if err != nil {
				return nil, err
			}
			awaited, failed := awaitedOf(live)
			if failed {
				return nil, nil
			}
			if all {
				keeps[h.Manifest] = keepRunning
				waiting = append(waiting, awaited...)
			}
		}
	}
	if len(waiting) > 0 {
		r.keeps = keeps
	}
	return waiting, nil
}

// resumeAfterDelete is resume for an uninstall that has reached its post-delete hooks: the pre-delete
// hooks have succeeded, and must not run again, because the objects that they need are gone. A
// post-delete hook that has failed meanwhile counts as well.
func (r *helmHooks) resumeAfterDelete(rel *release.Release) error {
	keeps := map[string]keep{}
	for _, h := range rel.Hooks {
		switch {
		case slices.Contains(h.Events, release.HookPreDelete):
			keeps[h.Manifest] = keepDone
		case !beganAfterDelete(h):
		case h.LastRun.Phase == release.HookPhaseSucceeded:
			keeps[h.Manifest] = keepDone
		default:
			_, all, err := r.made(rel, h)
			if err != nil {
				return err
			}
			if all {
				keeps[h.Manifest] = keepRunning
			}
		}
	}
	r.keeps = keeps
	return nil
}

// beganAfterDelete reports whether a hook that nothing but the end of an uninstall runs was begun.
func beganAfterDelete(h *release.Hook) bool {
	return slices.Equal(h.Events, []release.HookEvent{release.HookPostDelete}) && !h.LastRun.StartedAt.IsZero()
}

// made are the objects in the cluster that a hook of a record has made. all: none is missing.
func (r *helmHooks) made(rel *release.Release, h *release.Hook) (live []*unstructured.Unstructured, all bool, err error) {
	list, err := r.builder.build(h.Manifest, false)
	r.built = built{h.Manifest, list}
	if err != nil {
		return nil, false, err
	}
	for _, info := range list {
		o, err := look(info)
		if err != nil {
			return nil, false, err
		}
		if o != nil && o.GetAnnotations()[HookAnnotation] == hookMark(rel.Version, h.Manifest, r.op.release) {
			live = append(live, o)
		}
	}
	return live, len(live) > 0 && len(live) == len(list), nil
}

// look reads an object as a whole; nil when it is gone, is being deleted, or may not be read. The
// metadata alone are read by live.look.
func look(info *resource.Info) (*unstructured.Unstructured, error) {
	got, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, unlooked(objectOfInfo(info), err)
	}
	o, ok := got.(*unstructured.Unstructured)
	if !ok || o.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	return o, nil
}

// awaitedOf lists the Jobs and Pods among objects; failed: one of them has.
func awaitedOf(objects []*unstructured.Unstructured) (awaited []string, failed bool) {
	for _, o := range objects {
		if o.GetKind() != "Job" && o.GetKind() != "Pod" {
			continue
		}
		if _, err := finished(o); err != nil {
			return nil, true
		}
		awaited = append(awaited, manifest.Of(o).String())
	}
	return awaited, false
}

// settle applies the delete policies to hooks whose end an operation did not wait for, and that are
// not continued, because another manifest is wanted. A hook that did not succeed counts as failed.
// rel is the record of their revision; nil for none. Helm never deletes a CustomResourceDefinition
// of a hook, because its objects would go with it.
func (r *helmHooks) settle(rel *release.Release) error {
	if rel == nil || r.op.home.dry != nil {
		return nil
	}
	for _, h := range rel.Hooks {
		policy := release.HookFailed
		if h.LastRun.Phase == release.HookPhaseSucceeded {
			policy = release.HookSucceeded
		}
		if h.LastRun.StartedAt.IsZero() || h.Kind == "CustomResourceDefinition" || !slices.Contains(h.DeletePolicies, policy) {
			continue
		}
		live, _, err := r.made(rel, h)
		if err != nil {
			return err
		}
		if len(live) == 0 {
			continue
		}
		// Of several objects only those that carry our mark: a record may name any others.
		list := r.built.list.Filter(func(info *resource.Info) bool {
			return slices.ContainsFunc(live, func(o *unstructured.Unstructured) bool {
				same := o.GroupVersionKind() == info.Mapping.GroupVersionKind
				return same && o.GetNamespace() == info.Namespace && o.GetName() == info.Name
			})
		})
		if _, errs := r.client.Delete(list); len(errs) > 0 {
			return errors.Join(errs...)
		}
		if err := r.awaitDeleted(list, r.op.home.options.Timeout); err != nil {
			return err
		}
	}
	return nil
}

// keepRuns copies to hooks what a record knows of the runs of the same ones.
func keepRuns(to, recorded []*release.Hook) {
	for _, h := range to {
		for _, before := range recorded {
			if before.Path == h.Path && before.Manifest == h.Manifest {
				h.LastRun = before.LastRun
			}
		}
	}
}

// ranOnce returns a function that reports whether exactly one of some events runs a hook. For a
// hook with two of them, the record does not contain the one for which it has run.
func ranOnce(events ...release.HookEvent) func(*release.Hook) bool {
	return func(h *release.Hook) bool {
		count := 0
		for _, e := range h.Events {
			if slices.Contains(events, e) {
				count++
			}
		}
		return count == 1
	}
}

// orResume replaces a step by StepResume when the newest revision has a hook to continue with, and the
// same manifest, or one from the same inputs, is wanted (H14).
func (a *apply) orResume(step Step, reason string) (Step, string, error) {
	a.installer.keeps = nil
	last, ok := a.store.state.Last()
	if !ok || !a.manifest.hooks {
		return step, reason, nil
	}
	switch last.Status {
	case release.StatusFailed, release.StatusPendingInstall, release.StatusPendingUpgrade:
	default: // a rollback is not ours, and an uninstall has other hooks (resumeUninstall)
		return step, reason, nil
	}
	if last.Checksum != a.manifest.checksum && (last.Checksum == "" || last.labels[InputsLabel] != a.manifest.inputs) {
		return step, reason, nil
	}
	rel, err := a.store.body(last)
	if _, ok := errors.AsType[*corruptedError](err); ok {
		return step, reason, nil // the step drops it
	}
	if err != nil {
		return "", "", err
	}
	once := ranOnce(release.HookPreUpgrade, release.HookPostUpgrade)
	if a.store.state.installs() {
		once = ranOnce(release.HookPreInstall, release.HookPostInstall)
	}
	_, k := a.op.configuration(a.store)
	waiting, err := k.hooks.resume(rel, once)
	if err != nil || len(waiting) == 0 {
		return step, reason, err
	}
	a.installer.keeps = k.hooks.keeps
	return StepResume, fmt.Sprintf("revision %d still waits for %s", last.Version, strings.Join(waiting, ", ")), nil
}

// installs reports whether the newest revision is of an install: there is none before it, or what
// was before was uninstalled.
func (s State) installs() bool {
	n := len(s.Revisions)
	return n == 1 || n > 1 && s.Revisions[n-2].Status == release.StatusUninstalled
}

// resume runs the install or upgrade of the newest revision again, as the same revision. What it
// needs of the record is read first, because replaceLast hides it.
func (in *installer) resume() (did Action, rel *release.Release, err error) {
	earlier, err := in.store.sinceDeployed()
	if err != nil {
		return "", nil, err
	}
	installs := in.store.state.installs()
	if err := in.store.replaceLast(); err != nil {
		return "", nil, err
	}
	if installs {
		rel, err = in.install(earlier)
		return Installed, rel, err
	}
	rel, err = in.upgrade(earlier)
	return Upgraded, rel, err
}
