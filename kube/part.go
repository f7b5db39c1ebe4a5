package kube

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// part is the share of one source in one Watch. It applies the checksum rule: a new state with the
// checksum of the one before is no change (C38).
//
// Its methods are called with the lock of the source; they take the lock of
// the Watch, never the other way round.
type part struct {
	watch  *Watch
	source *source

	joined bool // it has had a list of the source, whose lock guards this; the next list has all events before it

	// Guarded by the lock of the Watch.
	entries map[objectKey]entry
	listed  bool // entries are those of a complete list, with all events since
	gone    bool // detached: what still arrives must not change the Watch
}

// replace takes a complete list, and notifies the differences from the objects of the part. The first
// list of each part is not notified before the Watch is synced for the first time: synced reports
// it as a whole.
func (p *part) replace(updates []update) {
	w := p.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.gone || w.overflowed {
		return
	}
	if slices.ContainsFunc(updates, func(u update) bool { return u.cut }) {
		w.overflow()
		return
	}
	silent := !w.synced && !p.listed && !w.spec.loud
	// Sorted, so that equal lists lead to equal changes. Deletions come first: they make room.
	slices.SortFunc(updates, func(a, b update) int { return a.key.compare(b.key) })
	p.removeAllBut(updates)
	if p.entries == nil {
		p.entries = make(map[objectKey]entry, len(updates))
	}
	for _, u := range updates {
		p.set(u, silent)
	}
	if w.overflowed {
		return
	}
	p.listed = true
	w.checkSynced()
}

// failed takes the error of a request of the source. When the API server does not let it read any more (C17), what
// the part has is as of then: the reflector begins with a new list when it may again, and until that is
// complete, which calls synced again, the part is not, though the request for it has been granted.
func (p *part) failed(err error) {
	w := p.watch
	if apierrors.IsNotFound(err) { // the kind may be gone
		w.lost.raise()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if apierrors.IsForbidden(err) {
		p.listed, w.whole = false, false
	}
	w.report(err)
}

// removeAllBut removes the objects that are not in updates, which are sorted.
func (p *part) removeAllBut(updates []update) {
	var gone []objectKey
	for key := range p.entries {
		_, found := slices.BinarySearchFunc(updates, key, func(u update, k objectKey) int { return u.key.compare(k) })
		if !found {
			gone = append(gone, key)
		}
	}
	slices.SortFunc(gone, objectKey.compare)
	for _, key := range gone {
		p.drop(key, p.entries[key], "")
	}
}

// put takes an ADDED or MODIFIED event.
func (p *part) put(u update) {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	if !p.gone && !p.watch.overflowed {
		p.set(u, false)
	}
}

// remove takes a DELETED event. It always fires (C38), with the last state of
// the object.
func (p *part) remove(u update) {
	w := p.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	old, cached := p.entries[u.key]
	if p.gone || !cached || old.uid != u.entry.uid {
		return // notified already, by a list
	}
	if u.entry.failed { // the last result that there was is better than none
		w.noteFailure(u, old)
		u.entry.result = old.result
	}
	p.drop(u.key, u.entry, u.version)
}

// set is the checksum rule. It keeps the new state in any case, also an unchanged one: the object
// of a filtered Watch is the latest. silent is for a first list. Called with the lock of the Watch.
func (p *part) set(u update, silent bool) {
	w := p.watch
	if w.overflowed {
		return
	}
	old, cached := p.entries[u.key]
	if cached && old.uid != u.entry.uid {
		// Deleted and created again between two lists (C38).
		p.drop(u.key, old, "")
		old, cached = entry{}, false
	}
	if u.entry.failed {
		w.noteFailure(u, old)
	}
	same := cached && old.sum == u.entry.sum && old.failed == u.entry.failed
	if same {
		u.entry.result = old.result // equal; one of the two can go
	}
	p.entries[u.key] = u.entry
	var before *entry
	if cached {
		before = &old
	}
	if w.weigh(u.key, &u.entry, before); w.overflowed {
		return
	}
	switch {
	case silent || same:
	case cached:
		w.notify(Change{Type: Modified, Object: u.entry.export(u.key), Version: u.version})
	default:
		w.notify(Change{Type: Added, Object: u.entry.export(u.key), Version: u.version})
	}
}

// drop forgets an object and notifies its last state. Called with the lock of the
// Watch.
func (p *part) drop(key objectKey, last entry, version string) {
	known := p.entries[key]
	p.watch.weigh(key, nil, &known)
	delete(p.entries, key)
	p.watch.notify(Change{Type: Deleted, Object: last.export(key), Version: version})
}
