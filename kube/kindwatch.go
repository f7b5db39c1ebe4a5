package kube

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// How long to wait until the next look for a missing kind.
const (
	kindPoll        = 5 * time.Second   // when only looking helps
	kindPollWatched = time.Minute       // when definitions are watched: a precaution
	kindPollRecent  = discoveryInterval // discovery lists a new kind a moment after its definition does,
	kindsSettle     = 10 * time.Second  // and this long it is expected
)

// kindWatches are the watches of the definitions of kinds, CustomResourceDefinitions and APIServices, for all who need
// them: Helm, to know whether discovery is still true, and Watches that wait for a kind (C16). There are some while
// somebody holds them; without the right to watch them, waiting Watches look every few seconds.
type kindWatches struct {
	client *Client

	mu      sync.Mutex
	holders int
	stop    context.CancelFunc
	watches []*Watch      // nil without holders
	ready   chan struct{} // closed when the first request of each has succeeded or failed
	changed chan struct{} // closed at the next change, and replaced
	// What was learned before is old. It is in the future after a change: discovery learns of that a moment later.
	old time.Time
}

func newKindWatches(c *Client) *kindWatches {
	return &kindWatches{client: c, changed: make(chan struct{})}
}

// hold begins the watches, unless there are some, until release is called.
func (d *kindWatches) hold(ctx context.Context) (watches []*Watch, ready <-chan struct{}, release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.holders++; d.holders == 1 {
		// They serve all holders, not only the first of them.
		ctx, d.stop = context.WithCancel(context.WithoutCancel(ctx))
		all := []kind{crdKind(), {resource: schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}, name: "APIService"}}
		begun, done := make(chan struct{}), new(atomic.Int32)
		d.ready = begun
		for _, of := range all {
			d.watches = append(d.watches, d.watch(ctx, of, sync.OnceFunc(func() {
				if int(done.Add(1)) == len(all) {
					close(begun)
				}
			})))
		}
	}
	return d.watches, d.ready, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.holders--; d.holders == 0 {
			d.stop()
			d.watches = nil
		}
	}
}

// watch watches one of the kinds. The first list, with what is in it, is no change of a definition.
func (d *kindWatches) watch(ctx context.Context, of kind, begun func()) *Watch {
	listed := false
	changed := func() {
		if listed {
			d.ring()
		}
	}
	synced := func() {
		changed()
		if !listed {
			listed = true
			d.mu.Lock()
			d.age(time.Now())
			d.mu.Unlock()
			begun()
		}
	}
	spec := Spec{APIVersion: of.apiVersion(), Kind: of.name, known: of, metadata: true, failed: func(error) { begun() }}
	w, _ := d.client.watcher.Watch(ctx, spec, func(Change) { changed() }, synced) // nothing is wrong with the spec
	return w
}

// age makes what was learned before a time old. Called with the lock.
func (d *kindWatches) age(now time.Time) {
	if now.After(d.old) {
		d.old = now
	}
}

func (d *kindWatches) ring() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.changed)
	d.changed = make(chan struct{})
	d.age(time.Now().Add(kindsSettle))
}

// next is closed at the next change. Take it before looking, so that a change
// while looking is not missed.
func (d *kindWatches) next() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// wait returns when it makes sense to look again, or when ctx ends. changed is from next.
func (d *kindWatches) wait(ctx context.Context, changed <-chan struct{}) {
	timer := time.NewTimer(d.pause())
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-timer.C:
	}
}

// pause is the time until the next look when nothing changes. After a change it is short for a
// while, because the change comes before discovery has the kind, and no event reports that.
func (d *kindWatches) pause() time.Duration {
	d.mu.Lock()
	recent, watches := time.Now().Before(d.old), d.watches
	d.mu.Unlock()
	switch {
	case recent:
		return kindPollRecent
	case slices.ContainsFunc(watches, func(w *Watch) bool { _, ok := w.current(); return !ok }):
		return kindPoll
	}
	return kindPollWatched
}

// WatchKinds begins to watch the definitions of kinds, until ctx ends. unchanged
// reports whether the kinds of the API server are surely the same as at a time,
// so that an answer from then is still valid. It waits until the watches have listed everything,
// or have failed to.
func (c *Client) WatchKinds(ctx context.Context) (unchanged func(ctx context.Context, since time.Time) bool) {
	watches, ready, release := c.definitions.hold(ctx)
	context.AfterFunc(ctx, release)
	return func(ctx context.Context, since time.Time) bool {
		select {
		case <-ready:
		case <-ctx.Done():
			return false
		}
		return c.definitions.quiet(watches, since)
	}
}

// quiet reports whether what was learned at some time is true now. A definition may have changed while a watch was
// interrupted, a moment before it was back.
func (d *kindWatches) quiet(watches []*Watch, learned time.Time) bool {
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
