package kube

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// kindPoll is how long a Watch waits until it looks for a missing kind again, if no definition changes before. After
	// a change it looks each discoveryInterval, for kindsSettle: discovery lists a new kind a moment after its
	// definition does, and no event reports that.
	kindPoll    = 30 * time.Second
	kindsSettle = 10 * time.Second
)

// kindChanges knows when kinds may have changed, from the watches of WatchKinds. Without one, or without the right to
// watch definitions, Watches that wait for a kind look for it from time to time (C16).
type kindChanges struct {
	mu      sync.Mutex
	changed chan struct{} // closed at the next change, and replaced
	// What was learned before is old. It is in the future after a change: discovery learns of that a moment later.
	old time.Time
}

func newKindChanges() *kindChanges { return &kindChanges{changed: make(chan struct{})} }

// WatchKinds watches the definitions of kinds, CustomResourceDefinitions and APIServices, until ctx ends. unchanged
// reports whether the kinds of the API server are surely the same as at a time, so that an answer from then is still
// valid.
func (c *Client) WatchKinds(ctx context.Context) (unchanged func(since time.Time) bool) {
	services := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	var watches []*Watch
	for _, of := range []kind{crdKind(), {resource: services, name: "APIService"}} {
		watches = append(watches, c.definitions.watch(ctx, c.watcher, of))
	}
	return func(since time.Time) bool { return c.definitions.quiet(watches, since) }
}

// watch watches one of the kinds. The first list, with what is in it, is no change of a definition.
func (d *kindChanges) watch(ctx context.Context, watcher *Watcher, of kind) *Watch {
	listed := false
	synced := func() {
		if listed {
			d.ring()
			return
		}
		listed = true
		d.mu.Lock()
		defer d.mu.Unlock()
		if now := time.Now(); now.After(d.old) {
			d.old = now
		}
	}
	spec := Spec{APIVersion: of.apiVersion(), Kind: of.name, known: of, metadata: true}
	w, _ := watcher.Watch(ctx, spec, func(Change) { d.ring() }, synced) // nothing is wrong with the spec
	return w
}

func (d *kindChanges) ring() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.changed)
	d.changed = make(chan struct{})
	d.old = time.Now().Add(kindsSettle)
}

// next returns what is closed at the next change, and how long to wait for it until the next look. Take both before
// looking, so that a change while looking is not missed.
func (d *kindChanges) next() (changed <-chan struct{}, pause time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Now().Before(d.old) {
		return d.changed, discoveryInterval
	}
	return d.changed, kindPoll
}

// quiet reports whether what was learned at some time is true now. A definition may have changed while a watch was
// interrupted, a moment before it was back.
func (d *kindChanges) quiet(watches []*Watch, learned time.Time) bool {
	for _, w := range watches {
		if restored, ok := w.current(); !ok || !restored.IsZero() && !learned.After(restored.Add(kindsSettle)) {
			return false
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return learned.After(d.old)
}

// nothing is the filter of Watches that need only the names of objects.
func nothing(map[string]any) (json.RawMessage, error) { return json.RawMessage("null"), nil }
