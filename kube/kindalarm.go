package kube

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// How long to wait until the next look for a missing kind.
const (
	kindPoll        = 5 * time.Second   // when only looking helps
	kindPollWatched = time.Minute       // when definitions are watched: a precaution
	kindPollRecent  = discoveryInterval // discovery lists a new kind a moment after its definition does,
	kindRecent      = 10 * time.Second  // and this long it is expected
)

// kindAlarm wakes Watches that wait for a kind when the kinds of the API server may have changed: a
// CustomResourceDefinition or an APIService did (C16). It watches them only while a Watch waits,
// and only if it may; without the right, waiting Watches look every few seconds.
//
// A Watch that waits calls enter, then in a loop next, looks for its kind, and calls wait.
type kindAlarm struct {
	watcher *Watcher

	mu      sync.Mutex    // taken before the lock of a Watch
	waiting int           // Watches between enter and leave
	watches []*Watch      // of definitions; nil while no Watch waits
	changed chan struct{} // closed at the next change, and replaced
	rung    time.Time     // last change
}

func newKindAlarm(w *Watcher) *kindAlarm {
	return &kindAlarm{watcher: w, changed: make(chan struct{})}
}

// enter arms the alarm until leave is called.
func (a *kindAlarm) enter(ctx context.Context) (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting++
	if a.waiting == 1 {
		// The watches serve all Watches that wait, not only the first of them.
		ctx = context.WithoutCancel(ctx)
		a.watches = []*Watch{
			a.watch(ctx, "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
			a.watch(ctx, "apiregistration.k8s.io/v1", "APIService"),
		}
	}
	return a.leave
}

func (a *kindAlarm) watch(ctx context.Context, apiVersion, kind string) *Watch {
	w := newWatch(a.watcher, Spec{APIVersion: apiVersion, Kind: kind, Filter: definition}, selection{})
	w.definition = true // before it starts: it must not wait for the alarm itself
	// The list may be newer than the look that found nothing, so its end rings, too.
	a.watcher.start(ctx, w, func(Change) { a.ring() }, a.ring)
	return w
}

func (a *kindAlarm) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting--
	if a.waiting == 0 {
		for _, w := range a.watches {
			w.Stop()
		}
		a.watches = nil
	}
}

func (a *kindAlarm) ring() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.changed)
	a.changed = make(chan struct{})
	a.rung = time.Now()
}

// next is closed at the next change. Take it before looking, so that a change
// while looking is not missed.
func (a *kindAlarm) next() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// wait returns when it makes sense to look again, or when ctx ends. changed is from next.
func (a *kindAlarm) wait(ctx context.Context, changed <-chan struct{}) {
	timer := time.NewTimer(a.pause())
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-timer.C:
	}
}

// pause is the time until the next look when nothing changes. After a change it is short for a
// while, because the change comes before discovery has the kind, and no event reports that.
func (a *kindAlarm) pause() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.rung) < kindRecent {
		return kindPollRecent
	}
	for _, w := range a.watches {
		if w.State().Phase != Complete {
			return kindPoll
		}
	}
	return kindPollWatched
}

// definition is the filter for objects that define kinds: what it shows changes
// when the kinds do.
func definition(object map[string]any) (json.RawMessage, error) {
	generation, _, _ := unstructured.NestedFieldNoCopy(object, "metadata", "generation")
	conditions, _, _ := unstructured.NestedFieldNoCopy(object, "status", "conditions")
	return json.Marshal([]any{generation, conditions})
}

// nothing is the filter of Watches that need only the names of objects.
func nothing(map[string]any) (json.RawMessage, error) { return json.RawMessage("null"), nil }
