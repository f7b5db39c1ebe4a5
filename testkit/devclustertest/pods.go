package devclustertest

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// FinishPods is the kubelet for the Pods of Jobs and of Helm hooks in a namespace, until the
// context ends: they succeed at once. Other Pods stay Pending. It blocks, so tests call it in a
// goroutine. A watch that has ended, by its timeout or with the API server, begins again with all
// Pods that there are.
func FinishPods(ctx context.Context, client kubernetes.Interface, namespace string) {
	pods := client.CoreV1().Pods(namespace)
	for ctx.Err() == nil {
		w, err := pods.Watch(ctx, metav1.ListOptions{})
		if err != nil { // not at once: a server that starts needs the processor itself
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			// A Helm hook may be a Pod itself. One that is being deleted needs no other status.
			ofJob := ok && slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Job" })
			if !ok || pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil || !ofJob && pod.Annotations["helm.sh/hook"] == "" {
				continue
			}
			pod = pod.DeepCopy()
			pod.Status.Phase = corev1.PodSucceeded
			_, _ = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}) // after a conflict comes another event
		}
	}
}
