package helm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// deletePoll is the time between two reads of an object that was deleted. Most are gone at once.
const deletePoll = 250 * time.Millisecond

// WatchUntilReady implements kube.Interface: it waits for the Jobs and Pods of a hook. Helm's own
// implementation continues to wait after the operation is cancelled. A hook that an earlier attempt
// has seen finish is not waited for: its delete policy may have removed it.
func (k *cluster) WatchUntilReady(list kube.ResourceList, timeout time.Duration) error {
	kept := k.hooks.kept(list)
	defer k.hooks.passed(list)
	if kept == keepDone {
		return nil
	}
	for _, info := range list {
		kind := info.Mapping.GroupVersionKind.Kind
		if kind != "Job" && kind != "Pod" {
			continue
		}
		if err := k.hooks.watchUntilDone(info, timeout, kept == keepRunning); err != nil {
			return err
		}
	}
	return nil
}

// watchUntilDone waits for one Job or Pod. known: it existed before this operation, so
// its Pods are read at once. If it has not finished at the end of the timeout, or if the wait is
// given up, r.cut is set: the hook has not failed, so none of its objects may be deleted, and the
// next attempt waits for it again. A Job that another client deletes counts as done, as in Helm.
func (r *helmHooks) watchUntilDone(info *resource.Info, timeout time.Duration, known bool) error {
	ctx, cancel := context.WithTimeout(r.op.ctx, timeout)
	defer cancel()
	ctx, leave := r.op.waits.bind(ctx)
	defer leave()
	seen := r.observe(info, timeout)
	look := firstLook
	if known {
		look = 0
	}
	ended := seen.run(ctx, look)
	only := fields.OneTermEqualSelector("metadata.name", info.Name)
	source := cache.NewListWatchFromClient(info.Client, info.Mapping.Resource.Resource, info.Namespace, only)
	_, err := watchtools.UntilWithSync(ctx, source, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Deleted {
			return e.Type == watch.Deleted, nil
		}
		seen.saw(u)
		return finished(u)
	})
	// Why the wait ended is read before leave cancels the context; ended waits for the observer.
	interrupted := wait.Interrupted(err) || err != nil && ctx.Err() != nil
	over := errors.Is(ctx.Err(), context.DeadlineExceeded)
	leave()
	ended()
	if !interrupted {
		return err
	}
	if over && seen.last().State == "" {
		seen.refresh()
	}
	r.cut = &waitError{wait: seen.last()}
	if over {
		r.cut.timeout = timeout
	}
	if r.op.ctx.Err() != nil {
		return r.op.ctx.Err()
	}
	return r.cut
}

// finished reports whether a Job or a Pod is done; a failed one is an error, in Helm's words.
func finished(u *unstructured.Unstructured) (bool, error) {
	if u.GetKind() == "Pod" {
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		if phase == string(corev1.PodFailed) {
			return true, fmt.Errorf("pod %s failed", u.GetName())
		}
		return phase == string(corev1.PodSucceeded), nil
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["status"] != "True" {
			continue
		}
		switch condition["type"] {
		case "Complete":
			return true, nil
		case "Failed":
			return true, fmt.Errorf("job %s failed: %v", u.GetName(), condition["reason"])
		}
	}
	return false, nil
}

// WaitForDelete implements kube.InterfaceExt: hooks are deleted before they are created again. A
// deletion that takes long, because of a finalizer, is reported like the wait for a hook.
func (k *cluster) WaitForDelete(list kube.ResourceList, timeout time.Duration) error {
	return k.hooks.awaitDeleted(list, timeout)
}

// awaitDeleted waits until objects are gone, one after the other. Those that are spared were not
// deleted, so there is nothing to wait for.
func (r *helmHooks) awaitDeleted(list kube.ResourceList, timeout time.Duration) error {
	if r.spares(list) {
		return nil
	}
	for _, info := range list {
		if err := r.watchUntilGone(info, timeout); err != nil {
			return err
		}
	}
	return nil
}

// watchUntilGone waits until an object of a hook is deleted. r.cut is set as by watchUntilDone.
func (r *helmHooks) watchUntilGone(info *resource.Info, timeout time.Duration) error {
	ctx, leave := r.op.waits.bind(r.op.ctx)
	defer leave()
	seen := r.observe(info, timeout)
	seen.now.Deleted = true
	ended := seen.run(ctx, firstLook)
	err := awaitGone(ctx, info, timeout, seen.saw)
	over := ctx.Err() == nil
	leave()
	ended()
	if !wait.Interrupted(err) {
		return err
	}
	if r.op.ctx.Err() != nil {
		return r.op.ctx.Err()
	}
	seen.refresh()
	r.cut = &waitError{wait: seen.last()}
	if over {
		r.cut.timeout = timeout
	}
	return r.cut
}

// awaitGone waits until an object is deleted, and shows it to saw each time that it is still there.
func awaitGone(ctx context.Context, info *resource.Info, timeout time.Duration, saw func(*unstructured.Unstructured)) error {
	helper := resource.NewHelper(info.Client, info.Mapping)
	return wait.PollUntilContextTimeout(ctx, deletePoll, timeout, true, func(context.Context) (bool, error) {
		live, err := helper.Get(info.Namespace, info.Name)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if u, ok := live.(*unstructured.Unstructured); ok && err == nil {
			saw(u)
		}
		return false, err
	})
}

// GetPodList implements kube.InterfaceLogs. Helm's own needs a client that only its method
// IsReachable makes, which the operator does not call.
func (k *cluster) GetPodList(namespace string, o metav1.ListOptions) (*corev1.PodList, error) {
	return k.op.pods(namespace, o)
}

// pods lists Pods by a client that ends with the operation.
func (op *operation) pods(namespace string, o metav1.ListOptions) (*corev1.PodList, error) {
	core, err := typedcorev1.NewForConfig(op.config())
	if err != nil {
		return nil, err
	}
	return core.Pods(namespace).List(op.ctx, o)
}

// OutputContainerLogsForPodList implements kube.InterfaceLogs. Unlike Helm's own, its requests end
// with the operation.
func (k *cluster) OutputContainerLogsForPodList(pods *corev1.PodList, namespace string, writer func(namespace, pod, container string) io.Writer) error {
	core, err := typedcorev1.NewForConfig(k.op.config())
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		for _, container := range pod.Spec.Containers {
			logs, err := core.Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container.Name}).Stream(k.op.ctx)
			if err != nil {
				return fmt.Errorf("read the log of pod %s, container %s: %w", pod.Name, container.Name, err)
			}
			_, err = io.Copy(writer(namespace, pod.Name, container.Name), logs)
			logs.Close()
			if err != nil {
				return fmt.Errorf("read the log of pod %s, container %s: %w", pod.Name, container.Name, err)
			}
		}
	}
	return nil
}
