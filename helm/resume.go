package helm

import (
	"bytes"
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

// keptHook is what to do with the hook that was built last.
func (k *cluster) keptHook(list kube.ResourceList) keep {
	if !k.built.is(list) {
		return keepNothing
	}
	return k.keeps[k.built.text]
}

// passed notes that a hook was waited for: whatever Helm does with it from now on is done.
func (k *cluster) passed(list kube.ResourceList) {
	if k.built.is(list) {
		delete(k.keeps, k.built.text)
	}
}

// spares reports that objects of hooks must not be deleted: they are kept from an earlier operation, or a hook
// that has not finished needs them.
func (k *cluster) spares(list kube.ResourceList) bool {
	return k.cut != nil || k.keptHook(list) != keepNothing
}

// Delete implements kube.Interface: Helm deletes with it what hooks have made.
func (k *cluster) Delete(list kube.ResourceList) (*kube.Result, []error) {
	if k.spares(list) {
		return &kube.Result{}, nil
	}
	return k.Client.Delete(list)
}

// annotate marks an object of a hook.
func (k *cluster) annotate(info *resource.Info, text string) {
	o, ok := info.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[HookAnnotation] = hookMark(k.releases.revision(), text)
	o.SetAnnotations(all)
}

func hookMark(revision int, text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%d-%s", revision, hex.EncodeToString(sum[:checksumBytes]))
}

// goOn finds out whether hooks of a record were begun by an operation that did not wait for their end, and keeps what
// they have made. ranOnce says of a hook that has succeeded that the operation would run it for nothing else. It returns
// the Jobs and Pods that are waited for; none: there is nothing to go on with.
func (k *cluster) goOn(rel *release.Release, ranOnce func(*release.Hook) bool) (waiting []string, err error) {
	keeps := map[string]keep{}
	for _, h := range rel.Hooks {
		switch {
		case h.LastRun.StartedAt.IsZero() || isTest(h):
		case h.LastRun.Phase == release.HookPhaseSucceeded:
			if ranOnce(h) {
				keeps[h.Manifest] = keepDone
			}
		default:
			live, all, err := k.made(rel, h)
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
		k.keeps = keeps
	}
	return waiting, nil
}

// goOnAfterDelete is goOn for an uninstall that has come to its post-delete hooks: those before have succeeded, what they
// needed is gone, and the end of one that was not waited for counts.
func (k *cluster) goOnAfterDelete(rel *release.Release) error {
	keeps := map[string]keep{}
	for _, h := range rel.Hooks {
		switch {
		case slices.Contains(h.Events, release.HookPreDelete):
			keeps[h.Manifest] = keepDone
		case !beganAfterDelete(h):
		case h.LastRun.Phase == release.HookPhaseSucceeded:
			keeps[h.Manifest] = keepDone
		default:
			_, all, err := k.made(rel, h)
			if err != nil {
				return err
			}
			if all {
				keeps[h.Manifest] = keepRunning
			}
		}
	}
	k.keeps = keeps
	return nil
}

// beganAfterDelete reports whether a hook that nothing but the end of an uninstall runs was begun.
func beganAfterDelete(h *release.Hook) bool {
	return slices.Equal(h.Events, []release.HookEvent{release.HookPostDelete}) && !h.LastRun.StartedAt.IsZero()
}

// made are the objects in the cluster that a hook of a record has made. all: none is missing.
func (k *cluster) made(rel *release.Release, h *release.Hook) (live []*unstructured.Unstructured, all bool, err error) {
	list, err := k.Build(bytes.NewBufferString(h.Manifest), false)
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
func (k *cluster) settle(rel *release.Release) error {
	if rel == nil || k.op.home.dry != nil {
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
		live, _, err := k.made(rel, h)
		if err != nil {
			return err
		}
		if len(live) == 0 {
			continue
		}
		list := k.built.list
		if _, errs := k.Client.Delete(list); len(errs) > 0 {
			return errors.Join(errs...)
		}
		if err := k.WaitForDelete(list, k.op.home.options.Timeout); err != nil {
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
	a.keeps = nil
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
	var corrupted *corruptedError
	if errors.As(err, &corrupted) {
		return step, reason, nil // the step drops it
	}
	if err != nil {
		return "", "", err
	}
	once := ranOnce(release.HookPreUpgrade, release.HookPostUpgrade)
	if a.store.state.installs() {
		once = ranOnce(release.HookPreInstall, release.HookPostInstall)
	}
	_, k := a.configuration(a.store)
	waiting, err := k.goOn(rel, once)
	if err != nil || len(waiting) == 0 {
		return step, reason, err
	}
	a.keeps = k.keeps
	return StepResume, fmt.Sprintf("revision %d still waits for %s", last.Version, strings.Join(waiting, ", ")), nil
}

// installs reports whether the newest revision is of an install: there is none before it, or what was before was
// uninstalled.
func (s State) installs() bool {
	n := len(s.Revisions)
	return n == 1 || n > 1 && s.Revisions[n-2].Status == release.StatusUninstalled
}

// resume runs the install or upgrade of the newest revision again, as the same revision.
func (a *apply) resume() (did Action, rel *release.Release, err error) {
	earlier, err := a.sinceDeployed()
	if err != nil {
		return "", nil, err
	}
	installs := a.store.state.installs()
	if err := a.store.replaceLast(); err != nil {
		return "", nil, err
	}
	if installs {
		rel, err = a.install(earlier)
		return Installed, rel, err
	}
	rel, err = a.upgrade(earlier)
	return Upgraded, rel, err
}
