package health

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// podsLook is how often the Pods of a workload in progress are looked at: that an image cannot be pulled does not change the
	// workload itself.
	podsLook = 10 * time.Second
	// podsRead is how many Pods, or Events, of a workload are read.
	podsRead = 20
)

// hasPods reports whether an object is a workload that says no more of its Pods than how many there are.
func hasPods(o *unstructured.Unstructured) bool {
	return slices.Contains([]string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"}, o.GetKind()) &&
		(o.GroupVersionKind().Group == "apps" || o.GroupVersionKind().Group == "batch")
}

// replicaFailure is the condition in which a Deployment or ReplicaSet repeats why its Pods are refused, for example by a quota.
func replicaFailure(o *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range conditions {
		if c, ok := one.(map[string]any); ok && c["type"] == "ReplicaFailure" && c["status"] == "True" {
			message, _ := c["message"].(string)
			return message
		}
	}
	return ""
}

// refusal is what keeps the Pods of a workload from running, in the words of Kubernetes: what the scheduler or a container says,
// or without Pods the last Event that warns. It is empty when nothing says so, or it may not be read.
func (f *Follower) refusal(ctx context.Context, workload *unstructured.Unstructured) string {
	labels, _, _ := unstructured.NestedMap(workload.Object, "spec", "selector")
	selector := metav1.LabelSelector{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(labels, &selector) != nil || len(labels) == 0 {
		return ""
	}
	core := corev1.SchemeGroupVersion
	pods, err := f.options.Client.Resource(core.WithResource("pods")).Namespace(workload.GetNamespace()).
		List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&selector), Limit: podsRead})
	if err != nil {
		return ""
	}
	for i := range pods.Items {
		pod := &corev1.Pod{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(pods.Items[i].Object, pod) != nil || pod.DeletionTimestamp != nil {
			continue
		}
		if state, message, stuck := PodState(pod); stuck {
			return after("Pod "+pod.Name+" is "+state, message)
		}
	}
	if len(pods.Items) > 0 {
		return ""
	}
	about := fields.Set{"involvedObject.uid": string(workload.GetUID()), "type": corev1.EventTypeWarning}
	events, err := f.options.Client.Resource(core.WithResource("events")).Namespace(workload.GetNamespace()).
		List(ctx, metav1.ListOptions{FieldSelector: about.String(), Limit: podsRead})
	if err != nil || len(events.Items) == 0 {
		return ""
	}
	message, _, _ := unstructured.NestedString(events.Items[len(events.Items)-1].Object, "message")
	return message
}

// after is a text with what explains it.
func after(text, why string) string {
	if why == "" {
		return text
	}
	return text + ": " + why
}

// PodState is the word for the state of a Pod, as kubectl shows it. stuck: it does not start without help.
func PodState(p *corev1.Pod) (state, message string, stuck bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != "" {
			return c.Reason, c.Message, true
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := c.State.Waiting
		if w == nil || w.Reason == "" {
			continue
		}
		starts := w.Reason == "ContainerCreating" || w.Reason == "PodInitializing"
		return w.Reason, w.Message, !starts
	}
	if p.Status.Reason != "" {
		return p.Status.Reason, p.Status.Message, false
	}
	return string(p.Status.Phase), p.Status.Message, false
}
