package kube

import (
	"context"
	"slices"
	"sync"
)

// Watch is the cache of one binding and the stream of its changes. See
// Watcher.Watch.
type Watch struct {
	watcher   *Watcher
	spec      Spec
	selection selection
	cancel    context.CancelFunc

	selectionText string // of the spec

	definition bool // watches definitions of kinds for the alarm

	lost chan struct{} // one place: the kind may be gone
	wake chan struct{} // one place: the queue is not empty

	adjusting sync.Mutex // one adjustment of the parts at a time; taken before all other locks

	mu         sync.Mutex
	namespaces *Watch // nil: the namespaces are fixed
	kind       *kind  // nil: not known yet, or gone
	problem    error  // why the kind is not known
	settled    bool   // parts are all that there will be, as far as is known
	parts      map[scope]*part
	synced     bool // it was whole once
	whole      bool // all parts are listed, and the last word of that is on its way
	stopped    bool
	seq        uint64
	queue      []notice
	bytes      int    // that the entries of all parts take
	objects    int    // of these, the JSON of objects
	overflowed bool   // that was too much: nothing is kept any more
	together   bool   // it was not too much for one, but for all
	failures   uint64 // of the filter
	failure    string // the last of them
}

// notice is a change to be delivered, or the word that the Watch is complete, or
// that it is too large.
type notice struct {
	change     Change
	synced     bool
	overflowed bool
}

func newWatch(w *Watcher, spec Spec, selection selection) *Watch {
	return &Watch{
		watcher:       w,
		spec:          spec,
		selection:     selection,
		selectionText: spec.selectionText(),
		lost:          make(chan struct{}, 1),
		wake:          make(chan struct{}, 1),
		parts:         map[scope]*part{},
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

// Stop ends the Watch and empties its cache. What is queued is not notified; a
// call that is running or about to run goes on to its end, so Stop may be
// called from notify.
func (w *Watch) Stop() {
	w.mu.Lock()
	w.stopped = true
	w.queue = nil
	w.mu.Unlock()
	if w.spec.Budget != nil {
		w.spec.Budget.forget(w)
	}
	w.cancel()
}

// notify queues a change and gives it its number. Called with w.mu.
func (w *Watch) notify(change Change) {
	if w.stopped {
		return
	}
	w.seq++
	change.Seq = w.seq
	w.enqueue(notice{change: change})
}

// checkSynced queues the word that the Watch is complete, for the first time or again.
// Called with w.mu.
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
	w.enqueue(notice{synced: true})
}

// weigh counts what is kept instead of something else, and gives all up when it is too
// much. Called with w.mu.
func (w *Watch) weigh(key objectKey, now, before *entry) {
	if now != nil {
		w.bytes += now.size(key)
		w.objects += len(now.object)
	}
	if before != nil {
		w.bytes -= before.size(key)
		w.objects -= len(before.object)
	}
	if w.spec.Limit > 0 && w.bytes > w.spec.Limit {
		w.overflow()
	}
}

// account reports to the budget what is kept now, after a change. Called with w.mu.
func (w *Watch) account() {
	budget := w.spec.Budget
	if budget == nil || w.overflowed || w.stopped {
		return
	}
	for _, tooLarge := range budget.set(w, w.bytes-w.objects, w.objects) {
		if tooLarge == w {
			w.together = true
			w.overflow()
			continue
		}
		go func() { // its lock is taken without the lock of another Watch held
			tooLarge.mu.Lock()
			defer tooLarge.mu.Unlock()
			tooLarge.together = tooLarge.together || !tooLarge.overflowed
			tooLarge.overflow()
		}()
	}
}

// overflow forgets everything, including queued changes: the receiver
// starts again. Called with w.mu.
func (w *Watch) overflow() {
	if w.overflowed || w.stopped {
		return
	}
	w.overflowed, w.bytes, w.objects, w.queue = true, 0, 0, nil
	if w.spec.Budget != nil {
		w.spec.Budget.forget(w)
	}
	for _, p := range w.parts {
		p.entries = nil
	}
	w.enqueue(notice{overflowed: true})
}

func (w *Watch) enqueue(n notice) {
	w.queue = append(w.queue, n)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// filterFailed counts a failure of the filter and logs it, once for each
// object until it works on it again (C39). Called with w.mu.
func (w *Watch) filterFailed(u update, before entry) {
	w.failures++
	w.failure = u.err.Error()
	if before.failed {
		return
	}
	w.watcher.log.Error("filter failed on an object, it has no filter result",
		"kind", w.spec.Kind, "namespace", u.key.namespace, "name", u.key.name, "err", u.err)
}

// deliver calls notify and synced, in order, with no lock held, until ctx ends.
func (w *Watch) deliver(ctx context.Context, notify func(Change), synced func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		w.mu.Lock()
		queue := w.queue
		w.queue = nil
		w.mu.Unlock()
		for _, n := range queue {
			if ctx.Err() != nil {
				return
			}
			switch {
			case n.overflowed:
				if w.spec.Overflowed != nil {
					w.spec.Overflowed()
				}
			case n.synced && synced != nil:
				synced()
			case !n.synced && notify != nil:
				notify(n.change)
			}
		}
	}
}
