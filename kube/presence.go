package kube

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Presence keeps the names of the objects with some labels: one metadata-only watch for each requested
// kind. It is safe for concurrent use.
//
// Its state may be a moment late: an object that it reports as absent may have just been created,
// and one that it has may have just been deleted. helm therefore reads the object before it acts.
type Presence struct {
	client *Client
	pause  time.Duration // between two polls of a kind

	// The lock of a presentKind is taken after this one, and none is held while report is called.
	mu     sync.Mutex
	ctx    context.Context // of the watches; nil: not started
	labels string          // a label selector, as text
	report PresenceReport  // never changes after Start, so watches read it without the lock
	kinds  map[schema.GroupKind]*presentKind
	wanted map[string]map[schema.GroupKind][]types.NamespacedName // by owner
}

// NewPresence makes a Presence that is empty until Start. The objects of a
// kind without permission to watch are read after each pause.
func NewPresence(c *Client, pause time.Duration) *Presence {
	return &Presence{
		client: c, pause: pause,
		kinds:  map[schema.GroupKind]*presentKind{},
		wanted: map[string]map[schema.GroupKind][]types.NamespacedName{},
	}
}

// PresenceReport is what a Presence calls, from the goroutine of a watch: each must return at once.
type PresenceReport = struct {
	// Ours selects among the objects with the labels.
	Ours func(*metav1.PartialObjectMetadata) bool
	// Gone is called for each object that was there and is gone, or is no longer ours.
	Gone func(schema.GroupKind, types.NamespacedName)
	// Changed is called for each object that is there, and again for each new version. After a new
	// list it is called for all of them.
	Changed func(m *meta.RESTMapping, o *metav1.PartialObjectMetadata)
}

// Start allows watches of the objects that labels select, until ctx ends.
func (p *Presence) Start(ctx context.Context, labels string, report PresenceReport) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx, p.labels, p.report = ctx, labels, report
}

// Follow begins to watch a kind, and does not wait for it.
func (p *Presence) Follow(m *meta.RESTMapping) { p.of(m) }

// Has reports whether an object is known to exist. It waits for the first list of its kind, and
// returns false if ctx or the watches end before.
func (p *Presence) Has(ctx context.Context, m *meta.RESTMapping, name types.NamespacedName) bool {
	k := p.of(m)
	if k == nil {
		return false
	}
	select {
	case <-k.ready:
	case <-k.ended: // an operator that stops ends its watches, and then waits for its writes
		return false
	case <-ctx.Done():
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.live[name]
	return ok && k.err == nil
}

// MayExist reports whether an object exists, according to the watches; it never waits. An object that they
// do not cover counts as present: an object that may exist must not be created again.
func (p *Presence) MayExist(kind schema.GroupKind, name types.NamespacedName) bool {
	p.mu.Lock()
	k := p.kinds[kind]
	p.mu.Unlock()
	if k == nil {
		return true
	}
	select {
	case <-k.ready:
	default:
		return true // the first list is on its way
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.live[name]
	return ok || k.err != nil && !apierrors.IsNotFound(k.err)
}

// Want remembers which objects an owner has; none forgets the owner. They are needed for kinds that
// must be polled, and for a watch that begins after another client has deleted an object that was
// just created: no event would show that.
func (p *Presence) Want(owner string, objects map[schema.GroupKind][]types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(objects) == 0 {
		delete(p.wanted, owner)
		return
	}
	p.wanted[owner] = objects
	for kind, names := range objects {
		if k := p.kinds[kind]; k != nil {
			k.expect(names)
		}
	}
}

// of returns the watch of a kind, which begins with the first request. If its version is no longer
// served, a request for another version begins a new watch.
func (p *Presence) of(m *meta.RESTMapping) *presentKind {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil {
		return nil
	}
	kind := m.GroupVersionKind.GroupKind()
	if k, ok := p.kinds[kind]; ok {
		if k.mapping.Resource == m.Resource || !k.missing() {
			return k
		}
		k.stop()
	}
	k := &presentKind{presence: p, mapping: m, live: map[types.NamespacedName]struct{}{}, expected: map[types.NamespacedName]struct{}{}, ready: make(chan struct{})}
	var ctx context.Context
	ctx, k.stop = context.WithCancel(p.ctx)
	k.ended = ctx.Done()
	p.kinds[kind] = k
	for _, objects := range p.wanted {
		k.expect(objects[kind])
	}
	p.client.WatchMetadata(ctx, m.Resource, "", p.labels, k)
	return k
}

// WatchedKind is one watch of a Presence, for people.
type WatchedKind struct {
	Resource string // "deployments.apps"
	Objects  int
	Problem  string // why its objects are not watched; empty when all is well
	Polled   bool   // they are asked for from time to time instead
}

// WatchedKinds lists the watches, by resource.
func (p *Presence) WatchedKinds() []WatchedKind {
	p.mu.Lock()
	kinds := make(map[string]*presentKind, len(p.kinds))
	for _, k := range p.kinds {
		kinds[k.mapping.Resource.GroupResource().String()] = k
	}
	p.mu.Unlock()
	var out []WatchedKind
	for _, resource := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[resource]
		k.mu.Lock()
		w := WatchedKind{Resource: resource, Objects: len(k.live)}
		if k.err != nil {
			w.Problem, w.Polled = k.err.Error(), apierrors.IsForbidden(k.err)
		}
		k.mu.Unlock()
		out = append(out, w)
	}
	return out
}

// presentKind holds the names of the objects of one kind. It is the
// MetadataStore of their watch.
type presentKind struct {
	presence *Presence
	mapping  *meta.RESTMapping
	stop     context.CancelFunc
	polled   time.Time     // last poll; only the goroutine of the watch touches it
	once     sync.Once     // closes ready
	ready    chan struct{} // closed when live is complete, or cannot be
	ended    <-chan struct{}

	mu   sync.Mutex
	live map[types.NamespacedName]struct{}
	err  error // of the last request; not nil: live is out of date
	// expected are wanted objects that the watch has not shown yet. Their absence is reported like
	// the end of a live one.
	expected map[types.NamespacedName]struct{}
}

// expect notes objects that exist, and that the watch will show. The watch of a kind that is new
// may take seconds to begin; what is deleted until then is gone without an event.
func (k *presentKind) expect(names []types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		if _, ok := k.live[name]; !ok {
			k.expected[name] = struct{}{}
		}
	}
}

// Set implements MetadataStore. An object that is no longer ours, because another client has
// changed its labels or annotations, is gone for the operator.
func (k *presentKind) Set(m *metav1.PartialObjectMetadata) {
	if !k.presence.report.Ours(m) {
		k.Unset(m)
		return
	}
	k.mu.Lock()
	k.live[nameOf(m)] = struct{}{}
	delete(k.expected, nameOf(m))
	k.mu.Unlock()
	k.presence.report.Changed(k.mapping, m)
}

// Unset implements MetadataStore.
func (k *presentKind) Unset(m *metav1.PartialObjectMetadata) {
	k.mu.Lock()
	_, existed := k.live[nameOf(m)]
	_, expected := k.expected[nameOf(m)]
	delete(k.live, nameOf(m))
	delete(k.expected, nameOf(m))
	k.mu.Unlock()
	if existed || expected {
		k.notify(nameOf(m))
	}
}

// Replace implements MetadataStore.
func (k *presentKind) Replace(all []*metav1.PartialObjectMetadata, _ string) {
	fresh := make(map[types.NamespacedName]struct{}, len(all))
	for _, m := range all {
		if k.presence.report.Ours(m) {
			fresh[nameOf(m)] = struct{}{}
		}
	}
	// The lock is not held from step to step: only the goroutine of the watch, which is this one,
	// changes live, and report must be called without it.
	k.swap(fresh)
	for _, m := range all {
		if _, ours := fresh[nameOf(m)]; ours {
			k.presence.report.Changed(k.mapping, m)
		}
	}
	k.mu.Lock()
	maps.DeleteFunc(k.expected, func(name types.NamespacedName, _ struct{}) bool { _, there := fresh[name]; return there })
	unseen := slices.Collect(maps.Keys(k.expected))
	k.mu.Unlock()
	k.ask(unseen) // the list may be older than they are
}

// ask gets objects one by one, and reports those that do not exist. After another
// error the state of the object is unknown: it is read again at the next list or poll.
func (k *presentKind) ask(names []types.NamespacedName) {
	k.presence.mu.Lock()
	ctx := k.presence.ctx
	k.presence.mu.Unlock()
	for _, name := range names {
		m, err := k.presence.client.metadata.Resource(k.mapping.Resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			k.lose(name)
		case err == nil:
			k.presence.report.Changed(k.mapping, m)
		}
	}
}

// lose forgets an object that does not exist, and reports it.
func (k *presentKind) lose(name types.NamespacedName) {
	k.mu.Lock()
	delete(k.expected, name)
	k.mu.Unlock()
	k.notify(name)
}

// swap replaces what is known, and reports what is gone.
func (k *presentKind) swap(fresh map[types.NamespacedName]struct{}) {
	k.mu.Lock()
	old := k.live
	k.live = fresh
	k.mu.Unlock()
	for name := range old {
		if _, still := fresh[name]; !still {
			k.notify(name)
		}
	}
}

// missing reports whether the API server does not serve the kind in this version.
func (k *presentKind) missing() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return apierrors.IsNotFound(k.err)
}

func (k *presentKind) notify(name types.NamespacedName) {
	k.presence.report.Gone(k.mapping.GroupVersionKind.GroupKind(), name)
}

// Alive implements MetadataStore.
func (k *presentKind) Alive() {
	k.mu.Lock()
	k.err = nil
	k.mu.Unlock()
	k.once.Do(func() { close(k.ready) })
}

// Failed implements MetadataStore. If the connection is lost, the names stay, but MayExist does not
// rely on their absence. If the kind is gone, so are its objects. A kind that may not be watched is
// polled.
func (k *presentKind) Failed(err error) {
	k.mu.Lock()
	first := k.err == nil
	k.err = err
	k.mu.Unlock()
	switch {
	case apierrors.IsNotFound(err):
		k.swap(map[types.NamespacedName]struct{}{})
		k.mu.Lock()
		unseen := slices.Collect(maps.Keys(k.expected))
		k.mu.Unlock()
		for _, name := range unseen {
			k.lose(name)
		}
	case apierrors.IsForbidden(err):
		if first {
			k.presence.client.log.Warn("objects of releases cannot be watched and are polled: grant list and watch of this kind in all namespaces to detect deletions at once",
				"pause", k.presence.pause, "resource", k.mapping.Resource.GroupResource().String(), "err", err)
		}
		k.poll()
	}
	k.once.Do(func() { close(k.ready) })
}

// poll asks for the wanted objects of this kind, at most once in a pause. Failed calls it each time
// that the watch is denied again, which is the clock of the polling.
func (k *presentKind) poll() {
	p := k.presence
	if time.Since(k.polled) < p.pause {
		return
	}
	k.polled = time.Now()
	p.mu.Lock()
	var names []types.NamespacedName
	for _, objects := range p.wanted {
		names = append(names, objects[k.mapping.GroupVersionKind.GroupKind()]...)
	}
	p.mu.Unlock()
	k.ask(names)
}

func nameOf(m *metav1.PartialObjectMetadata) types.NamespacedName {
	return types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
}
