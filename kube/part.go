package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"
	"unique"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/values"
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

// objectKey names an object within a kind.
type objectKey struct{ namespace, name string }

func (k objectKey) compare(other objectKey) int {
	return cmp.Or(cmp.Compare(k.namespace, other.namespace), cmp.Compare(k.name, other.name))
}

// entry is what a Watch keeps of an object. There can be very many, so a field more costs memory
// for each object in each Watch. Hence hashes in place of texts: with the random seed of the
// Watcher, a user cannot craft two states with the same one.
type entry struct {
	object json.RawMessage // shared by all Watches that keep it; nil without KeepObjects
	result json.RawMessage // nil without Filter, and when it failed
	sum    uint64          // hash of the filter result or, without one, of the whole object (C38)
	uid    uint64          // hash of the UID: another one under the same name is another object
	failed bool            // the filter failed on this state
}

func (e entry) export(key objectKey) Object {
	return Object{Namespace: key.namespace, Name: key.name, Object: e.object, FilterResult: e.result}
}

// size is about what the entry takes in memory, with the object. It counts a shared object in full.
func (e entry) size(key objectKey) int {
	const overhead = 200 // the entry itself, its place in the map, the name
	return overhead + len(key.name) + len(e.object) + len(e.result)
}

// update is a new state of an object, made for one part: another part of the same source has
// another filter. Of a deleted object it is the last state.
type update struct {
	cut     bool // the list is too large for the part, and what it would keep of this object is left out
	key     objectKey
	version string // resourceVersion
	entry   entry
	err     error // of the filter
}

// document is an object as it came from the API server. It is encoded at most once, however many
// parts want it, and they share the bytes. One goroutine uses it.
type document struct {
	object  *unstructured.Unstructured
	encoded json.RawMessage
}

// newDocument takes an object, or no more than its metadata.
func newDocument(object *unstructured.Unstructured, metadata bool) *document {
	// Noise for hooks, and often half of the object.
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	if metadata { // an API server may have sent more
		object.Object = map[string]any{"metadata": object.Object["metadata"]}
	}
	return &document{object: object}
}

func (d *document) key() objectKey {
	// A few namespaces, thousands of objects: the name of a namespace is in memory once.
	return objectKey{unique.Make(d.object.GetNamespace()).Value(), d.object.GetName()}
}

func (d *document) json() (json.RawMessage, error) {
	if d.encoded != nil {
		return d.encoded, nil
	}
	text, err := values.Encode(d.object.Object)
	d.encoded = bytes.Clone(text) // the buffer holds up to twice as much
	return d.encoded, err
}

// errFilterOfSecret replaces every error of a filter on a Secret: jq quotes the value that it fails on,
// and errors are logged and shown on pages (J7).
var errFilterOfSecret = errors.New("the jq filter fails or takes too long; its error is not shown, because it may quote the Secret")

// update filters the object for one Watch. A filter that fails leaves the
// object without a result; it then counts as changed when anything in it has
// changed, so that no event is lost (C39).
func (d *document) update(spec *Spec, seed maphash.Seed) update {
	u := update{key: d.key(), version: d.object.GetResourceVersion()}
	u.entry.uid = maphash.String(seed, string(d.object.GetUID()))
	if spec.Filter != nil {
		u.entry.result, u.err = spec.Filter(d.object.Object)
		u.entry.result = bytes.Clone(u.entry.result) // a buffer may hold more
	}
	if u.err != nil {
		u.entry.result, u.entry.failed = nil, true
		if d.object.GetKind() == "Secret" {
			u.err = errFilterOfSecret
		}
	}
	whole := spec.Filter == nil || u.entry.failed
	if !whole {
		u.entry.sum = maphash.Bytes(seed, u.entry.result)
	}
	if !whole && !spec.KeepObjects {
		return u
	}
	text, err := d.json()
	if err != nil { // counts and is logged as a failure of the filter
		u.err, u.entry.failed = err, true
		return u
	}
	if whole {
		u.entry.sum = maphash.Bytes(seed, text)
	}
	if spec.KeepObjects {
		u.entry.object = text
	}
	return u
}

// record is an object of a list, already cut down to what the listed parts keep of it: updates[i]
// is for parts[i] of the batch it was made for.
type record struct{ updates []update }

// batch are the parts that one list is made for. The parts of a source may change while the list is in
// progress; the batch has those that get the records.
type batch struct {
	parts []*part // never changes
	bytes []int   // that the list takes so far for each of them; only record touches it
}

// record reduces one object of the list for each part. When a part has no room for more, it keeps
// only the name of the object: the list continues, because other parts may have room, and the mark
// shows the part that it is too large. One goroutine calls it, for one object after another.
func (b *batch) record(document *document, seed maphash.Seed) *record {
	r := &record{updates: make([]update, len(b.parts))}
	if b.bytes == nil {
		b.bytes = make([]int, len(b.parts))
	}
	for i, p := range b.parts {
		if limit := p.watch.spec.Limit; limit > 0 && b.bytes[i] > limit {
			r.updates[i] = update{key: document.key(), version: document.object.GetResourceVersion(), cut: true}
			continue
		}
		r.updates[i] = document.update(&p.watch.spec, seed)
		b.bytes[i] += r.updates[i].entry.size(r.updates[i].key)
	}
	return r
}

// GetObjectKind and DeepCopyObject make a record pass as an API object on its
// way through the reflector. A record never changes, so it is its own copy.
func (r *record) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the record.
func (r *record) DeepCopyObject() runtime.Object { return r }

// health remembers how the requests of one reflector are doing. The reflector writes it, states of
// Watches and metrics read it.
type health struct {
	mu   sync.Mutex
	last condition
}

// condition is what is known of the requests of one reflector.
type condition struct {
	since    time.Time // start of the present failure; zero: all is well
	verb     string    // of the failing request: list or watch
	err      error     // of the last failed request; nil: all is well
	restored time.Time // end of the last failure; zero: there was none
}

func (c condition) failing() bool   { return c.err != nil }
func (c condition) forbidden() bool { return apierrors.IsForbidden(c.err) }

func (h *health) condition() condition {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// fail notes a failed request and reports whether it is the first in a row.
func (h *health) fail(verb string, err error, now time.Time) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first = !h.last.failing()
	if first {
		h.last.since = now
	}
	h.last.verb, h.last.err = verb, err
	return first
}

// recover records a successful request and returns how long there was none; zero
// after a success. A list is no sign of a watch that works: a role may allow
// the one and not the other.
func (h *health) recover(verb string, now time.Time) (outage time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.last.failing() || verb == "list" && h.last.verb == "watch" {
		return 0
	}
	outage = now.Sub(h.last.since)
	h.last = condition{restored: now}
	return outage
}

// run finds the kind and reconciles the parts of the Watch, until ctx ends. It has
// two states: the kind is found, and the sources of the parts work by themselves until one
// of them reports that the API server does not serve the resource (lost); or there is no such kind,
// and the Watch waits for a change of definitions (C16). While the answer is unknown, the state stays.
//
// Meanwhile the Watch of the namespaces calls adjust from its own goroutine. So adjust compares
// the actual with the desired parts, whatever has changed, and w.adjusting admits one call at a
// time.
func (w *Watch) run(ctx context.Context) {
	defer w.removeParts()
	if w.spec.NamespaceLabels != nil {
		w.followNamespaces(ctx)
	}
	pause := newPause(pauseLost)
	for fresh := false; ctx.Err() == nil; {
		found, err := w.resolve(ctx, fresh)
		switch {
		case err == nil:
			w.kindFound(ctx, found)
			select {
			case <-ctx.Done():
			case <-w.lost:
				// Discovery may still list a kind that is being deleted; the source
				// retries, and calls again. A kind that was never looked up is looked up at once.
				if fresh || w.spec.known.name == "" {
					_ = sleep(ctx, discoveryInterval)
				}
			}
			pause, fresh = newPause(pauseLost), true // discovery must answer again: what is kept has the kind
		case errors.Is(err, errNoKind):
			w.kindGone(err)
			w.awaitKind(ctx)
			pause = newPause(pauseLost)
		default: // unknown for now; what is watched stays watched
			w.kindUnknown(err)
			_ = sleep(ctx, pause.Step())
		}
	}
}

// resolve finds the kind of the Watch. One that cannot be watched counts as missing: the Watch
// looks for it again and again.
func (w *Watch) resolve(ctx context.Context, fresh bool) (kind, error) {
	if !fresh && w.spec.known.name != "" {
		return w.spec.known, nil
	}
	if w.watcher.origin != nil {
		return w.kindOfOrigin()
	}
	found, err := w.watcher.client.kinds.resolve(ctx, w.spec.APIVersion, w.spec.Kind, fresh)
	if err == nil && !found.watchable {
		err = fmt.Errorf("%s/%s cannot be watched: %w", found.apiVersion(), found.name, errNoKind)
	}
	return found, err
}

// awaitKind returns when the kind may be there.
func (w *Watch) awaitKind(ctx context.Context) {
	for ctx.Err() == nil {
		changed, pause := w.watcher.client.definitions.next() // before the look: see there
		if _, err := w.resolve(ctx, true); !errors.Is(err, errNoKind) {
			return
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(pause):
		}
	}
}

// followNamespaces keeps a Watch on the namespaces that the Watch covers. It comes before the kind is found: then
// the parts are adjusted, whatever that Watch has called before. It ends with ctx.
func (w *Watch) followNamespaces(ctx context.Context) {
	spec := Spec{APIVersion: "v1", Kind: "Namespace", Labels: w.spec.NamespaceLabels, Filter: nothing, Failed: w.spec.Failed}
	adjust := func() { w.adjust(ctx) }
	namespaces, _ := w.watcher.Watch(ctx, spec, func(Change) { adjust() }, adjust) // the selector was checked before
	w.mu.Lock()
	w.namespaces = namespaces
	w.mu.Unlock()
}

func (w *Watch) kindFound(ctx context.Context, found kind) {
	w.mu.Lock()
	w.kind, w.problem = &found, nil
	w.mu.Unlock()
	w.adjust(ctx)
}

// kindGone removes all parts: a kind that does not exist has no objects.
func (w *Watch) kindGone(err error) {
	w.mu.Lock()
	first := w.problem == nil
	w.kind, w.problem = nil, err
	w.mu.Unlock()
	if first && !w.spec.loud {
		w.watcher.log.Warn("waiting for a kind", "kind", kindLabel(w.spec.APIVersion, w.spec.Kind), "err", err)
	}
	w.removeParts()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report(err)
}

// kindUnknown notes why the kind cannot be resolved now. A kind that is known stays, and one that
// was gone stays gone: an outage shows nothing new (P13).
func (w *Watch) kindUnknown(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kind == nil && !errors.Is(w.problem, errNoKind) {
		w.problem = err
	}
}

// adjust removes parts that should not be there, and adds those that should. It does nothing before
// the kind, and with a selector of namespaces these, are known.
func (w *Watch) adjust(ctx context.Context) {
	w.adjusting.Lock()
	defer w.adjusting.Unlock()
	w.mu.Lock()
	found, selected := w.kind, w.namespaces
	w.mu.Unlock()
	if found == nil || ctx.Err() != nil {
		return
	}
	namespaces, known := w.covered(*found, selected)
	if !known {
		return
	}
	removed, added := w.divide(w.spec.scopes(namespaces), *found)
	// Without the lock of the Watch: a source takes its own lock first, and then that.
	for _, p := range removed {
		w.watcher.detach(p)
	}
	for _, share := range slices.SortedFunc(maps.Keys(added), scope.compare) {
		w.watcher.attach(ctx, added[share], sourceKey{
			resource:  found.resource,
			namespace: share.namespace,
			labels:    w.selection.labels,
			fields:    w.selection.fieldText(share.name),
			metadata:  w.spec.metadata,
		})
	}
	w.mu.Lock()
	w.settled = true
	w.checkSynced()
	w.mu.Unlock()
	w.fed(ctx)
}

// covered returns the namespaces of the Watch, and whether they are known yet. One empty name
// means all of them, or none for a cluster-wide kind; no name at all means that no
// namespace matches.
func (w *Watch) covered(found kind, selected *Watch) (names []string, known bool) {
	everywhere := []string{""}
	switch {
	case !found.namespaced:
		return everywhere, true
	case w.spec.NamespaceLabels != nil:
		return selected.names()
	case len(w.spec.Namespaces) > 0:
		return w.spec.Namespaces, true
	default:
		return everywhere, true
	}
}

// names returns the names of the objects of a complete Watch; it may be nil.
func (w *Watch) names() (names []string, known bool) {
	if w == nil {
		return nil, false
	}
	w.mu.Lock()
	known = w.synced
	w.mu.Unlock()
	if !known {
		return nil, false
	}
	objects, _ := w.Snapshot()
	for _, o := range objects {
		names = append(names, o.Name)
	}
	return names, true
}

// divide removes the parts that are not wanted, and notifies that their objects are gone. A part
// whose resource has moved to another version is removed, too, but its objects wait for the list of
// its successor, so that only differences are notified. It adds the parts that are wanted; a new one makes the Watch
// incomplete until it is listed. The caller detaches and attaches them.
func (w *Watch) divide(wanted map[scope]bool, found kind) (removed []*part, added map[scope]*part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for share, p := range w.parts {
		if wanted[share] && p.source.key.resource == found.resource {
			continue
		}
		p.gone = true
		removed = append(removed, p)
		if wanted[share] {
			w.parts[share] = &part{watch: w, entries: p.entries, listed: p.listed}
			continue
		}
		delete(w.parts, share)
		p.removeAllBut(nil)
	}
	added = map[scope]*part{}
	for share := range wanted {
		p := w.parts[share]
		if p == nil {
			p = &part{watch: w}
			w.parts[share], w.whole = p, false
		}
		if p.source == nil {
			added[share] = p
		}
	}
	return removed, added
}

// setSource connects a part. It takes the lock because states read the source of each part.
func (w *Watch) setSource(p *part, s *source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.source = s
}

// removeParts removes all parts, because the kind is gone, or at the end of the Watch. In the first
// case all objects are notified as deleted.
func (w *Watch) removeParts() {
	w.adjusting.Lock()
	defer w.adjusting.Unlock()
	w.mu.Lock()
	w.settled, w.whole = false, false
	w.mu.Unlock()
	removed, _ := w.divide(nil, kind{})
	for _, p := range removed {
		w.watcher.detach(p)
	}
}
