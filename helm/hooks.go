package helm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"
)

// hookAgain ends the error of a hook whose time is over: whatever the requests of the wait said last, it has failed.
const hookAgain = "; the next attempt begins it again"

// waitSlice is how long Helm waits at a time. Its waits have no context, so a wait that is cancelled ends with its
// slice.
const waitSlice = 2 * time.Second

// WatchUntilReady implements kube.Interface: it is Helm's own wait for the Jobs and Pods of a hook (H14).
func (k *cluster) WatchUntilReady(list kube.ResourceList, timeout time.Duration) error {
	return k.await(timeout, fmt.Sprintf("Helm hook %s did not finish within %s%s", namesOf(list), timeout, hookAgain),
		func(slice time.Duration) error { return k.Client.WatchUntilReady(list, slice) })
}

// WaitForDelete implements kube.InterfaceExt: hooks are deleted before they are created again.
func (k *cluster) WaitForDelete(list kube.ResourceList, timeout time.Duration) error {
	return k.await(timeout, fmt.Sprintf("%s still exists %s after its deletion; does it have a finalizer?", namesOf(list), timeout),
		func(slice time.Duration) error { return k.Client.WaitForDelete(list, slice) })
}

// await lets Helm wait until what it waits for is there, the wait is given up, or the operation is cancelled; late is
// the error when the time is over.
func (k *cluster) await(timeout time.Duration, late string, forSlice func(time.Duration) error) error {
	for end := time.Now().Add(timeout); ; {
		err := forSlice(max(time.Millisecond, min(time.Until(end), waitSlice))) // Helm takes 0 for no end
		if !wait.Interrupted(err) && k.op.ctx.Err() == nil {
			return err
		}
		select {
		case <-k.op.giveUp:
			return errors.New("the wait for a Helm hook was given up" + hookAgain)
		case <-k.op.ctx.Done():
			return k.op.ctx.Err()
		default:
		}
		if !time.Now().Before(end) {
			return errors.New(late)
		}
	}
}

func namesOf(list kube.ResourceList) string {
	var names []string
	for _, info := range list {
		names = append(names, objectOfInfo(info).String())
	}
	return strings.Join(names, ", ")
}

// GetPodList implements kube.InterfaceLogs: the output of Pods of hooks is not shown.
func (k *cluster) GetPodList(string, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{}, nil
}

// createHook creates the objects of a hook. What an interrupted operation has left of it is deleted first: Helm does
// that only where the policy of the hook says so, and fails otherwise, without end.
func (k *cluster) createHook(list kube.ResourceList) (*kube.Result, error) {
	created, err := k.Client.Create(list)
	hasData := func(info *resource.Info) bool { return holdsData(objectOfInfo(info)) }
	if !apierrors.IsAlreadyExists(err) || slices.ContainsFunc(list, hasData) {
		return created, err
	}
	if _, errs := k.Delete(list); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if err := k.WaitForDelete(list, k.op.home.options.Timeout); err != nil {
		return nil, err
	}
	return k.Client.Create(list)
}

// Delete implements kube.Interface. Helm deletes objects of hooks with it, before it creates them
// again and when their policy requires it. An object that no hook of this release has left stays (H7): Helm would
// delete it only because a hook has its name.
func (k *cluster) Delete(list kube.ResourceList) (*kube.Result, []error) {
	var errs []error
	for _, info := range list {
		o := objectOfInfo(info)
		live, exists, err := k.op.home.look(k.op.ctx, o)
		if err != nil {
			return &kube.Result{}, []error{err}
		}
		if why := notOfHook(k.op, live); exists && why != "" {
			errs = append(errs, fmt.Errorf("a Helm hook of the chart would replace %s, but %s; "+
				"rename the hook, or delete the object if it is not needed", o, why))
		}
	}
	if len(errs) > 0 {
		k.refused = &Error{Kind: Foreign, Release: k.op.release, Err: errors.Join(errs...)}
		return &kube.Result{}, []error{k.refused}
	}
	return k.Client.Delete(list)
}

// notOfHook returns why an object is not one that a hook of this release has left; empty if it may be. Helm and older
// operators do not name the release of a hook; what they have left may be ours.
func notOfHook(op *operation, live *metav1.PartialObjectMetadata) string {
	if live == nil {
		return "the operator may not read it, so its owner is unknown"
	}
	them, module := ownerIn(live), live.Labels[MarkLabel]
	switch {
	case isOther(them, op.us()):
		return fmt.Sprintf("it belongs to release %s in namespace %s", them.name, them.namespace)
	case live.Annotations[release.HookAnnotation] == "" && them != op.us():
		return "no Helm hook has made it: it has no annotation " + release.HookAnnotation
	case module != "" && module != op.release:
		return "it is of a Helm hook of release " + module
	}
	return ""
}

// undone are the delete hooks of a chart, without the pre-delete hooks that have succeeded before an uninstall was
// interrupted, as its record says: the objects that they need may be gone.
func undone(hooks []*release.Hook, record *release.Release) (left []*release.Hook) {
	for _, h := range hooks {
		done := record.Info.Status == release.StatusUninstalling && slices.Equal(h.Events, []release.HookEvent{release.HookPreDelete}) &&
			slices.ContainsFunc(record.Hooks, func(before *release.Hook) bool {
				return before.Path == h.Path && before.Manifest == h.Manifest && before.LastRun.Phase == release.HookPhaseSucceeded
			})
		if runsOnDelete(h) && !done {
			left = append(left, h)
		}
	}
	return left
}
