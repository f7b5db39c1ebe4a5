package kube

import (
	"context"
	"slices"
	"sync"
)

// Watch is the cache of one binding and the stream of its changes. See Watcher.Watch.
//
// It has two goroutines: run keeps its parts, deliver calls changed and synced. Sources call the
// parts from goroutines of their own. All of them meet in the queue: what is queued with a lock
// held is delivered in the same order without one. A Watch of an Origin has no goroutine (feed.go).
type Watch struct {
	watcher   *Watcher
	spec      Spec
	selection selection
	changed   func(Change) // may be nil, and so may this
	complete  func()
	cancel    context.CancelFunc

	lost signal // the kind may be gone
	wake signal // the queue is not empty

	adjusting sync.Mutex // one adjustment of the parts at a time; taken before all other locks

	mu         sync.Mutex
	namespaces *Watch // on the namespaces that it covers; nil: these are fixed
	kind       *kind  // nil: not known yet, or gone
	problem    error  // why the kind is not known; nil: it is, or was not looked for yet
	settled    bool   // parts are all that there will be, as far as is known
	parts      map[scope]*part
	synced     bool     // it was whole once
	whole      bool     // all parts are listed, and the last word of that is on its way
	stopped    bool     // nothing is queued any more
	seq        uint64   // of the last change
	queue      []func() // calls of notify, synced, Overflowed and failed that are due, in order; Limit bounds what they come from
	bytes      int      // that the entries of all parts take
	overflowed bool     // that was too much: nothing is kept any more
	failures   uint64   // of the filter
}

func newWatch(w *Watcher, spec Spec, selection selection, changed func(Change), synced func()) *Watch {
	return &Watch{
		watcher: w, spec: spec, selection: selection, changed: changed, complete: synced, lost: make(signal, 1), wake: make(signal, 1),
		parts: map[scope]*part{},
	}
}

// Snapshot returns the objects in the cache, sorted by namespace, then name
// (C35). It contains every change with Seq ≤ seq and none after. The slice is
// the caller's, the JSON in it must not be changed.
func (w *Watch) Snapshot() (objects []Object, seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := 0
	for _, p := range w.parts {
		size += len(p.entries)
	}
	objects = make([]Object, 0, size)
	for _, p := range w.parts {
		for key, e := range p.entries {
			objects = append(objects, e.export(key))
		}
	}
	slices.SortFunc(objects, func(a, b Object) int {
		return objectKey{a.Namespace, a.Name}.compare(objectKey{b.Namespace, b.Name})
	})
	return objects, w.seq
}

// Stop ends the Watch and empties its queue. A call of notify that is running or about to run goes
// on to its end, so Stop may be called from notify.
func (w *Watch) Stop() {
	w.mu.Lock()
	w.stopped = true
	w.queue = nil
	w.mu.Unlock()
	w.cancel()
}

// notify queues a change and gives it its number. Called with w.mu.
func (w *Watch) notify(change Change) {
	if w.stopped {
		return
	}
	w.seq++
	change.Seq = w.seq
	if w.changed != nil {
		w.enqueue(func() { w.changed(change) })
	}
}

// checkSynced queues the message that the Watch is complete, for the first time or again. Called
// with w.mu.
func (w *Watch) checkSynced() {
	if w.whole || !w.settled || w.stopped || w.overflowed {
		return
	}
	for _, p := range w.parts {
		if !p.listed {
			return
		}
	}
	w.synced, w.whole = true, true
	if w.complete != nil {
		w.enqueue(w.complete)
	}
}

// weigh counts the bytes that one entry adds instead of another, and gives all up if they are too
// many. Called with w.mu.
func (w *Watch) weigh(key objectKey, now, before *entry) {
	if now != nil {
		w.bytes += now.size(key)
	}
	if before != nil {
		w.bytes -= before.size(key)
	}
	if w.spec.Limit > 0 && w.bytes > w.spec.Limit {
		w.overflow()
	}
}

// overflow forgets everything, including queued changes: the receiver has to start a new Watch.
// This one has its sources until Stop, but keeps nothing of what they bring. Called with w.mu.
func (w *Watch) overflow() {
	if w.overflowed || w.stopped {
		return
	}
	w.overflowed, w.bytes, w.queue = true, 0, nil
	for _, p := range w.parts {
		p.entries = nil
	}
	if w.spec.Overflowed != nil {
		w.enqueue(w.spec.Overflowed)
	}
}

// report queues a failure, if anybody wants to know. Called with w.mu.
func (w *Watch) report(err error) {
	if w.spec.failed != nil && !w.stopped {
		w.enqueue(func() { w.spec.failed(err) })
	}
}

func (w *Watch) enqueue(call func()) {
	w.queue = append(w.queue, call)
	w.wake.raise()
}

// signal has one place: it is raised or not. Its receiver looks at all that may have changed, so a
// signal that is raised twice before is received once.
type signal chan struct{}

// raise never blocks.
func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// noteFailure counts a failure of the filter and logs it, once for each object until it works again (C39). Called with w.mu.
func (w *Watch) noteFailure(u update, before entry) {
	w.failures++
	if !before.failed {
		w.watcher.log.Error("filter failed on an object; it has no filter result",
			"kind", w.spec.Kind, "namespace", u.key.namespace, "name", u.key.name, "err", u.err)
	}
}

// deliver delivers what is queued until ctx ends. One goroutine does that for each Watch.
func (w *Watch) deliver(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		w.flush(ctx)
	}
}

// flush delivers what is queued, in order, with no lock held, unless ctx ends.
func (w *Watch) flush(ctx context.Context) {
	w.mu.Lock()
	queue := w.queue
	w.queue = nil
	w.mu.Unlock()
	// An overflow does not take these back: they are delivered, unless Stop ends ctx.
	for _, call := range queue {
		if ctx.Err() != nil {
			return
		}
		call()
	}
}
