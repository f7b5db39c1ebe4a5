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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"addon-operator/helm/manifest"
)

// An operation may end while a Helm hook has not: at its timeout, because newer values are due, or because the
// operator stops or dies. The Job or Pod goes on. When the next operation wants the same manifest, it goes on with
// the same revision: hooks that have succeeded do not run again, the one that waits is neither deleted nor created,
// and is waited for. An annotation says which run of a hook an object belongs to, because clocks differ and a
// record cannot have the UID of what is created after it. Where another manifest is wanted, or the hook has failed or is
// gone, everything is as without this: a new revision, whose hooks run from the beginning.

// HookAnnotation is on the objects of Helm hooks: the revision that they were created for, and the checksum of
// their manifest.
const HookAnnotation = "addon-operator/helm-hook"

// keep says what an operation does with a hook that an earlier one has begun.
type keep string

const (
	keepNothing keep = ""        // it runs, as Helm says
	keepRunning keep = "running" // its objects are there: it is waited for, and not created
	keepDone    keep = "done"    // it has succeeded, and does not run again
)

// built is what Build was called for last. Helm builds a hook right before it deletes, creates or awaits it.
type built struct {
	text string
	list kube.ResourceList
}

// is reports whether a list is the one that was built last.
func (b built) is(list kube.ResourceList) bool {
	return len(list) > 0 && len(b.list) > 0 && list[0] == b.list[0]
}

// helmHooks are the hooks of Helm that one action runs.
type helmHooks struct {
	op       *operation
	client   *kube.Client
	builder  *builder
	releases *store
	built    built
	keeps    map[string]keep // of an earlier operation, by the text of the hook
	cut      *waitError      // the wait that was not waited for to its end
}

// kept is what to do with the hook that was built last.
func (r *helmHooks) kept(list kube.ResourceList) keep {
	if !r.built.is(list) {
		return keepNothing
	}
	return r.keeps[r.built.text]
}

// passed notes that a hook was waited for: whatever Helm does with it from now on is done.
func (r *helmHooks) passed(list kube.ResourceList) {
	if r.built.is(list) {
		delete(r.keeps, r.built.text)
	}
}

// spares reports that objects of hooks must not be deleted: they are kept from an earlier operation, or a hook
// that has not finished needs them.
func (r *helmHooks) spares(list kube.ResourceList) bool {
	return r.cut != nil || r.kept(list) != keepNothing
}

// Delete implements kube.Interface: Helm deletes with it what hooks have made.
func (k *cluster) Delete(list kube.ResourceList) (*kube.Result, []error) {
	if k.hooks.spares(list) {
		return &kube.Result{}, nil
	}
	return k.Client.Delete(list)
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
	all[HookAnnotation] = hookMark(r.releases.revision(), text)
	o.SetAnnotations(all)
}

func hookMark(revision int, text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%d-%s", revision, hex.EncodeToString(sum[:checksumBytes]))
}

// goOn finds out whether hooks of a record were begun by an operation that did not wait for their end, and keeps what
// they have made. ranOnce says of a hook that has succeeded that the operation would run it for nothing else. It returns
// the Jobs and Pods that are waited for; none: there is nothing to go on with.
func (r *helmHooks) goOn(rel *release.Release, ranOnce func(*release.Hook) bool) (waiting []string, err error) {
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

// goOnAfterDelete is goOn for an uninstall that has come to its post-delete hooks: those before have succeeded, what they
// needed is gone, and the end of one that was not waited for counts.
func (r *helmHooks) goOnAfterDelete(rel *release.Release) error {
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
		if o != nil && o.GetAnnotations()[HookAnnotation] == hookMark(rel.Version, h.Manifest) {
			live = append(live, o)
		}
	}
	return live, len(live) > 0 && len(live) == len(list), nil
}

// look reads an object; nil when it is gone, is being deleted, or may not be read.
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

// settle deletes what Helm's delete policy says of hooks that were not waited for to their end, and that are not gone
// on with: another manifest is wanted. rel is the record of their revision; nil for none.
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
		list := r.built.list
		if _, errs := r.client.Delete(list); len(errs) > 0 {
			return errors.Join(errs...)
		}
		if err := r.awaitDeleted(list, r.op.home.options.Timeout); err != nil {
			return err
		}
	}
	return nil
}

// ranOnce returns a function that reports whether exactly one of some events runs a hook. Of a hook with two it is not
// known for which of them it has run.
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

// goOn lets an operation that did not wait for the end of a hook be gone on with, when the same manifest, or one from
// the same inputs, is wanted (H14).
func (a *apply) goOn(step Step, reason string) (Step, string, error) {
	a.installer.keeps = nil
	last, ok := a.store.state.Last()
	if !ok || !a.manifest.hooks {
		return step, reason, nil
	}
	switch last.Status {
	case release.StatusFailed, release.StatusPendingInstall, release.StatusPendingUpgrade:
	default:
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
	waiting, err := k.hooks.goOn(rel, once)
	if err != nil || len(waiting) == 0 {
		return step, reason, err
	}
	a.installer.keeps = k.hooks.keeps
	return StepResume, fmt.Sprintf("revision %d still waits for %s", last.Version, strings.Join(waiting, ", ")), nil
}

// installs reports whether the newest revision is of an install: there is none before it, or what was before was
// uninstalled.
func (s State) installs() bool {
	n := len(s.Revisions)
	return n == 1 || n > 1 && s.Revisions[n-2].Status == release.StatusUninstalled
}

// resume runs the install or upgrade of the newest revision again, as the same revision.
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
