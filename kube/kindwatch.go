package kube

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
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
	watches []*kindWatch  // nil while nobody holds them
	changed chan struct{} // closed at the next change, and replaced
	rung    time.Time     // last change
}

func newKindWatches(c *Client) *kindWatches {
	return &kindWatches{client: c, changed: make(chan struct{})}
}

// hold begins the watches, unless there are some, until release is called.
func (d *kindWatches) hold(ctx context.Context) (watches []*kindWatch, release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.holders++; d.holders == 1 {
		// They serve all holders, not only the first of them.
		ctx, d.stop = context.WithCancel(context.WithoutCancel(ctx))
		for _, of := range []kind{crdKind(), {resource: schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}, name: "APIService"}} {
			d.watches = append(d.watches, d.watch(ctx, of))
		}
	}
	return d.watches, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.holders--; d.holders == 0 {
			d.stop()
			d.watches = nil
		}
	}
}

func (d *kindWatches) watch(ctx context.Context, of kind) *kindWatch {
	k := &kindWatch{ready: make(chan struct{})}
	begun := func() { k.once.Do(func() { close(k.ready) }) }
	listed := false // the first list, with what is in it, is no change of a definition
	changed := func() {
		if listed {
			k.change()
			d.ring()
		}
	}
	synced := func() {
		changed()
		if !listed {
			listed = true
			k.change()
			begun()
		}
	}
	spec := Spec{APIVersion: of.apiVersion(), Kind: of.name, known: of, metadata: true, failed: func(error) { begun() }}
	k.Watch, _ = d.client.watcher.Watch(ctx, spec, func(Change) { changed() }, synced) // nothing is wrong with the spec
	return k
}

func (d *kindWatches) ring() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.changed)
	d.changed = make(chan struct{})
	d.rung = time.Now()
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
	recent, watches := time.Since(d.rung) < kindsSettle, d.watches
	d.mu.Unlock()
	switch {
	case recent:
		return kindPollRecent
	case slices.ContainsFunc(watches, func(k *kindWatch) bool { _, ok := k.current(); return !ok }):
		return kindPoll
	}
	return kindPollWatched
}

// WatchKinds begins to watch the definitions of kinds, until ctx ends. unchanged
// reports whether the kinds of the API server are surely the same as at a time,
// so that an answer from then is still valid. It waits until the watches have listed everything,
// or have failed to.
func (c *Client) WatchKinds(ctx context.Context) (unchanged func(ctx context.Context, since time.Time) bool) {
	watches, release := c.definitions.hold(ctx)
	context.AfterFunc(ctx, release)
	return func(ctx context.Context, since time.Time) bool {
		for _, k := range watches {
			if !k.quiet(ctx, since) {
				return false
			}
		}
		return true
	}
}

// kindWatch notes when definitions of kinds changed. While its Watch is not current, they may change at any time.
type kindWatch struct {
	*Watch
	once  sync.Once
	ready chan struct{} // closed when the first request has succeeded or failed

	mu      sync.Mutex
	changed time.Time // what was learned before this is old; it may be in the future
}

// change notes that the list is complete or, from then on, that a definition has changed: discovery learns of that a
// moment later.
func (k *kindWatch) change() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.changed.IsZero() {
		k.changed = time.Now()
		return
	}
	k.changed = time.Now().Add(kindsSettle)
}

// quiet reports whether what was learned at some time is true now. A definition may have changed while the watch was
// interrupted, a moment before it was back.
func (k *kindWatch) quiet(ctx context.Context, learned time.Time) bool {
	select {
	case <-k.ready:
	case <-ctx.Done():
		return false
	}
	restored, ok := k.current()
	k.mu.Lock()
	defer k.mu.Unlock()
	return ok && learned.After(k.changed) && (restored.IsZero() || learned.After(restored.Add(kindsSettle)))
}

// nothing is the filter of Watches that need only the names of objects.
func nothing(map[string]any) (json.RawMessage, error) { return json.RawMessage("null"), nil }
