package kube

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// maxEventMessage is the limit of the API server, in bytes.
const maxEventMessage = 1024

// subject is what an event is about: a Pod or a ConfigMap.
type subject struct{ kind, namespace, name string }

// events records Kubernetes Events.
type events struct {
	core      typedcorev1.CoreV1Interface
	component string // that reports them
}

// record records a Kubernetes Event, so that 'kubectl describe' shows the user what is wrong
// (D16). eventType is Normal or Warning, reason one word in CamelCase. The same event again
// only raises the count of the first.
func (e events) record(ctx context.Context, about subject, eventType, reason, message string) error {
	event := e.make(ctx, about, eventType, reason, message)
	api := e.core.Events(about.namespace)
	_, err := api.Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = e.count(ctx, event)
	}
	if err != nil {
		return fmt.Errorf("record event %s on %s %s/%s: %w", reason, about.kind, about.namespace, about.name, err)
	}
	return nil
}

// make gives equal events the same name, so that the second one is found to exist, also by another
// replica and after a restart. The UID of the subject is a part of that: a new Pod of the same name
// has events of its own.
func (e events) make(ctx context.Context, about subject, eventType, reason, message string) *corev1.Event {
	involved := corev1.ObjectReference{APIVersion: "v1", Kind: about.kind, Namespace: about.namespace, Name: about.name, UID: e.uid(ctx, about)}
	message = truncate(message, maxEventMessage)
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s\x00%s\x00%s\x00%s", involved.UID, eventType, reason, message)
	now := metav1.NewTime(time.Now())
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: about.namespace, Name: fmt.Sprintf("%s.%016x", about.name, sum.Sum64())},
		InvolvedObject: involved,
		Type:           eventType,
		Reason:         reason,
		Message:        message,
		Source:         corev1.EventSource{Component: e.component},
		FirstTimestamp: now,
		LastTimestamp:  now,
		Count:          1,
	}
}

// uid is that of the object. 'kubectl describe' selects by it; without one the event is
// still in the list of events, so an object that cannot be read is no reason to give up.
func (e events) uid(ctx context.Context, about subject) types.UID {
	if about.kind == "Pod" {
		if object, err := e.core.Pods(about.namespace).Get(ctx, about.name, metav1.GetOptions{}); err == nil {
			return object.UID
		}
		return ""
	}
	if object, err := e.core.ConfigMaps(about.namespace).Get(ctx, about.name, metav1.GetOptions{}); err == nil {
		return object.UID
	}
	return ""
}

// count raises the count of an event that is recorded already. A conflict is returned: another
// replica has just recorded the same.
func (e events) count(ctx context.Context, event *corev1.Event) error {
	api := e.core.Events(event.Namespace)
	known, err := api.Get(ctx, event.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	known.Count++
	known.LastTimestamp = event.LastTimestamp
	_, err = api.Update(ctx, known, metav1.UpdateOptions{})
	return err
}

// truncate cuts a text to at most limit bytes, not within a character.
func truncate(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	cut := limit - len(ellipsis)
	for cut > 0 && text[cut]&0xC0 == 0x80 { // inside a character of UTF-8
		cut--
	}
	return text[:cut] + ellipsis
}
