package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
)

// OperatorEvent is a Kubernetes Event that an operator has recorded, as the command events
// shows it; Events of other programs in the namespace are left out.
type OperatorEvent struct {
	Last    time.Time `json:"last"` // when it was recorded last, First when first
	First   time.Time `json:"first"`
	Count   int       `json:"count"` // how often
	Type    string    `json:"type"`  // Normal or Warning
	Reason  string    `json:"reason"`
	Object  string    `json:"object"` // Kind/name that it is shown on
	Message string    `json:"message"`

	uid     types.UID // of the Event
	version string    // resourceVersion, for the order within a second
}

const (
	// eventsAtATime and mostEvents limit what is read, and what is kept of it: the newest ones.
	eventsAtATime = 500
	mostEvents    = 1000
	// eventsPause is the time between two attempts to watch.
	eventsPause = time.Second
)

// OperatorEvents lists the Events that operators have recorded in a namespace, the oldest first; of more than mostEvents
// the newest.
func (c *Client) OperatorEvents(ctx context.Context, namespace string) ([]OperatorEvent, error) {
	all, _, err := c.operatorEvents(ctx, namespace)
	return all, err
}

// operatorEvents returns the resourceVersion of the list, too, from which a watch may continue. It cuts after
// each page, so that no more than a page and mostEvents are in memory.
func (c *Client) operatorEvents(ctx context.Context, namespace string) (all []OperatorEvent, version string, err error) {
	options := metav1.ListOptions{Limit: eventsAtATime}
	for {
		list, err := c.core.Events(namespace).List(ctx, options)
		if err != nil {
			return nil, "", fmt.Errorf("list events in namespace %s: %w", namespace, err)
		}
		for i := range list.Items {
			if e := &list.Items[i]; byOperator(e) {
				all = append(all, operatorEvent(e))
			}
		}
		slices.SortFunc(all, earlier)
		all = all[max(0, len(all)-mostEvents):]
		if version = list.ResourceVersion; list.Continue == "" {
			return all, version, nil
		}
		options.Continue = list.Continue
	}
}

// FollowOperatorEvents calls show for the Events that operators have recorded in a namespace, and then for each new
// one, until ctx is done (then it returns nil) or show fails. A watch that ends is begun again.
// Only the first list, and a denial, are errors.
func (c *Client) FollowOperatorEvents(ctx context.Context, namespace string, show func(OperatorEvent) error) error {
	shown := map[types.UID]int{} // the counts that show was called with: a repeated Event is the same object with a higher count
	for first := true; ; first = false {
		all, version, err := c.operatorEvents(ctx, namespace)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // that is the end
		case err != nil && (first || apierrors.IsForbidden(err)):
			return err
		case err == nil:
			err = c.followFrom(ctx, namespace, version, all, func(s OperatorEvent) error {
				if s.Count <= shown[s.uid] {
					return nil
				}
				shown[s.uid] = s.Count
				return show(s)
			})
			if err != nil {
				return err
			}
		}
		known := map[types.UID]bool{}
		for _, s := range all {
			known[s.uid] = true
		}
		if err == nil { // an Event that has expired never comes again; without this the map would only grow
			maps.DeleteFunc(shown, func(uid types.UID, _ int) bool { return !known[uid] })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(eventsPause):
		}
	}
}

// followFrom calls show for a list and then for each new Event. It returns nil when the watch has
// ended or could not begin, because the caller retries; a denial, and an error of show, are returned.
func (c *Client) followFrom(ctx context.Context, namespace, version string, all []OperatorEvent, show func(OperatorEvent) error) error {
	for _, s := range all {
		if err := show(s); err != nil {
			return err
		}
	}
	w, err := c.core.Events(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("watch events in namespace %s: %w", namespace, err)
	}
	if err != nil {
		return nil // it is tried again
	}
	defer w.Stop()
	for change := range w.ResultChan() {
		e, ok := change.Object.(*corev1.Event)
		if !ok || change.Type == watch.Deleted || !byOperator(e) {
			continue
		}
		if err := show(operatorEvent(e)); err != nil {
			return err
		}
	}
	return nil
}

// byOperator reports whether an operator of any version has recorded the event: the component is
// its user agent, which may have the version behind a slash.
func byOperator(e *corev1.Event) bool {
	return e.Source.Component == defaultUserAgent || strings.HasPrefix(e.Source.Component, defaultUserAgent+"/")
}

func operatorEvent(e *corev1.Event) OperatorEvent {
	return OperatorEvent{
		Last: e.LastTimestamp.Time, First: e.FirstTimestamp.Time, Count: int(e.Count), Type: e.Type, Reason: e.Reason,
		Object: e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, Message: e.Message, uid: e.UID, version: e.ResourceVersion,
	}
}

// earlier orders Events by their times, which are whole seconds, then by resourceVersion: the order
// in which they were written.
func earlier(a, b OperatorEvent) int {
	written, err := resourceversion.CompareResourceVersion(a.version, b.version)
	if err != nil {
		written = 0
	}
	return cmp.Or(a.Last.Compare(b.Last), written)
}
