package kube

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Watcher runs Watches and shares what they have in common. It is safe for
// concurrent use.
type Watcher struct {
	client *Client
	log    *slog.Logger
	seed   maphash.Seed // random, so that equal checksums cannot be crafted

	origin Origin // nil: an API server that is reached by requests
	looks  []look // of Watches of the Origin, whose lock guards them

	mu      sync.Mutex
	sources map[sourceKey]*source
}

// NewWatcher makes a Watcher without any Watch. A nil log discards.
func NewWatcher(c *Client, log *slog.Logger) *Watcher {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{client: c, log: log, seed: maphash.MakeSeed(), sources: map[sourceKey]*source{}}
}

// Watch is Watcher.Watch, for all who watch by this client: what they select equally is watched once.
func (c *Client) Watch(ctx context.Context, spec Spec, notify func(Change), synced func()) (*Watch, error) {
	return c.watcher.Watch(ctx, spec, notify, synced)
}

// Watch starts to watch and returns at once; it returns an error only for a spec
// that can never be right. Other failures are retried and visible in State. The Watch
// ends with ctx or Stop.
//
// synced is called when the first complete list of all parts of the
// Watch is in the cache; the objects in it are not notified, Snapshot has them
// (C36, C40). It is called again each time the Watch is complete after it was
// not: a namespace began to match, a permission was lost and is back.
//
// notify is called with each change from the first synced on. Before that it may be
// called with changes of parts that are complete already; a Snapshot that is taken in
// synced contains these, and its seq is not below theirs.
//
// Both are called in order from one goroutine of this Watch and may call anything of this package.
// While one of them takes its time the changes queue up in memory; no other
// Watch waits for it. Either may be nil.
func (w *Watcher) Watch(ctx context.Context, spec Spec, notify func(Change), synced func()) (*Watch, error) {
	selection, err := spec.compile()
	if err != nil {
		return nil, err
	}
	watch := newWatch(w, spec, selection, notify, synced)
	ctx, watch.cancel = context.WithCancel(ctx)
	if w.origin != nil {
		watch.begin(ctx)
		return watch, nil
	}
	go watch.deliver(ctx)
	go watch.run(ctx)
	return watch, nil
}

// attach connects a part to the source it asks for, and starts it when it is new. The part is in
// the source before that starts, so that the first list is for it, too.
func (w *Watcher) attach(ctx context.Context, p *part, key sourceKey) {
	if w.origin != nil {
		w.feed(ctx, p, key)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	shared := w.sources[key]
	isNew := shared == nil
	if isNew {
		shared = w.newSource(key, w.client.dynamic.Resource(key.resource).Namespace(key.namespace))
		w.sources[key] = shared
	}
	shared.holders++
	p.watch.setSource(p, shared)
	shared.attach(p)
	if isNew {
		// The source outlives the Watch that happened to come first.
		ctx, shared.stop = context.WithCancel(context.WithoutCancel(ctx))
		go shared.run(ctx)
	}
}

func (w *Watcher) newSource(key sourceKey, api dynamic.ResourceInterface) *source {
	return &source{
		key: key, api: api, seed: w.seed, log: w.log, watches: w.client.watches, wentBack: w.client.wentBack,
		again: func() {}, batch: &batch{},
	}
}

// detach takes a part from its source, and stops the source with the last.
func (w *Watcher) detach(p *part) {
	p.source.detach(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.source.holders--; p.source.holders == 0 {
		p.source.stop()
		delete(w.sources, p.source.key)
	}
}

// Origin is an API server of the same process. Its Watches have no reflectors and no goroutines: it calls them in the
// goroutine that makes a change, so that a test which waits for the operator to be idle need not wait for a connection.
// All calls, in both directions, are made with the lock of the Origin held, but for those of Snapshot, State and Stop.
// What a Watch reports it must not call the Origin for.
type Origin interface {
	// Kind finds a kind as a Spec names it.
	Kind(apiVersion, word string) (resource schema.GroupVersionResource, name string, namespaced, found bool)
	// Feed calls List or Refuse at once, and each other method of the Feed from then on until it has Ended.
	Feed(f *Feed)
}

// NewFedWatcher makes a Watcher of an Origin, without any Watch.
func NewFedWatcher(o Origin) *Watcher {
	w := NewWatcher(&Client{watches: unwatched{}}, nil)
	w.origin = o
	return w
}

// KindsChanged has all Watches look for their kinds again.
func (w *Watcher) KindsChanged() {
	w.looks = slices.DeleteFunc(w.looks, func(l look) bool { return l.ctx.Err() != nil })
	for _, l := range w.looks {
		l.watch.look(l.ctx)
	}
}

// look is a Watch that looks for its kind when kinds change, until ctx ends.
type look struct {
	ctx   context.Context
	watch *Watch
}

// begin is what run does, without a goroutine.
func (w *Watch) begin(ctx context.Context) {
	if w.spec.NamespaceLabels != nil {
		w.followNamespaces(ctx)
	}
	w.watcher.looks = append(w.watcher.looks, look{ctx, w})
	w.look(ctx)
}

func (w *Watch) look(ctx context.Context) {
	found, err := w.resolve(ctx, true)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		w.kindFound(ctx, found)
	default:
		w.kindGone(err)
		w.fed(ctx)
	}
}

func (w *Watch) kindOfOrigin() (kind, error) {
	resource, name, namespaced, found := w.watcher.origin.Kind(w.spec.APIVersion, w.spec.Kind)
	if !found {
		return kind{}, fmt.Errorf("find %s: %w", kindLabel(w.spec.APIVersion, w.spec.Kind), errNoKind)
	}
	return kind{resource: resource, name: name, namespaced: namespaced, watchable: true}, nil
}

// fed delivers at once what an Origin has led to. Other Watches have a goroutine for that.
func (w *Watch) fed(ctx context.Context) {
	if w.watcher.origin != nil {
		w.flush(ctx)
	}
}

// Feed is what a Watch of an Origin reads: the objects of a resource in a namespace, by selectors; each may be empty.
type Feed struct {
	Resource                  schema.GroupVersionResource
	Namespace, Labels, Fields string

	ctx    context.Context
	watch  *Watch
	source *source
}

// feed is attach for an Origin: no two Watches share a source, so they report changes in the order of their Feeds.
func (w *Watcher) feed(ctx context.Context, p *part, key sourceKey) {
	s := w.newSource(key, nil)
	ctx, s.stop = context.WithCancel(ctx)
	s.holders = 1
	p.watch.setSource(p, s)
	s.attach(p)
	w.origin.Feed(&Feed{key.resource, key.namespace, key.labels, key.fields, ctx, p.watch, s})
}

// Ended reports that the Watch needs nothing more.
func (f *Feed) Ended() bool { return f.ctx.Err() != nil }

// List takes all objects. Those that any method takes belong to the Watch.
func (f *Feed) List(objects []*unstructured.Unstructured) {
	f.source.note(f.ctx, "list", nil)
	batch, list := f.source.startList(), make([]any, 0, len(objects))
	for _, object := range objects {
		list = append(list, batch.record(newDocument(object, f.source.key.metadata), f.source.seed))
	}
	_ = f.source.Replace(list, "") // it never fails
	f.watch.fed(f.ctx)
}

// Refuse takes the error by which the objects may not be read, until the next List.
func (f *Feed) Refuse(err error) {
	f.source.note(f.ctx, "list", err)
	f.watch.fed(f.ctx)
}

// Put takes an object that is new, or different.
func (f *Feed) Put(object *unstructured.Unstructured) {
	_ = f.source.Add(object) // it never fails on an object
	f.watch.fed(f.ctx)
}

// Remove takes an object that is gone, in its last state.
func (f *Feed) Remove(object *unstructured.Unstructured) {
	_ = f.source.Delete(object)
	f.watch.fed(f.ctx)
}
