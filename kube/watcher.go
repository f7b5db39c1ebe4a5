package kube

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"

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
