package kube

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

	mu     sync.Mutex      // not held while report is called
	ctx    context.Context // of the watches; nil: not started. Nothing changes it and the next two after Start
	labels *metav1.LabelSelector
	report PresenceReport
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
	selector, err := metav1.ParseToLabelSelector(labels)
	if err != nil {
		p.client.log.Error("bug: objects of releases are not watched", "err", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx, p.labels, p.report = ctx, selector, report
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
	_, sure := k.watch.current()
	return sure && k.has(name)
}

// Known reports whether an object exists, according to the watches, and whether they cover it now; it never waits. An
// object that they do not cover must not be created again, because it may exist.
func (p *Presence) Known(kind schema.GroupKind, name types.NamespacedName) (there, sure bool) {
	p.mu.Lock()
	k := p.kinds[kind]
	p.mu.Unlock()
	if k == nil {
		return false, false
	}
	_, sure = k.watch.current()
	return k.has(name), sure
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
}

// of returns the watch of a kind, which begins with the first request. If its version is no longer
// served, a request for another version begins a new watch.
func (p *Presence) of(m *meta.RESTMapping) *presentKind {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil {
		return nil
	}
	gvk := m.GroupVersionKind
	if k, ok := p.kinds[gvk.GroupKind()]; ok {
		if k.mapping.Resource == m.Resource || k.watch.State().Phase != WaitingForKind {
			return k
		}
		k.watch.Stop()
	}
	k := &presentKind{presence: p, mapping: m, ready: make(chan struct{}), ended: p.ctx.Done()}
	spec := Spec{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Labels: p.labels, Filter: k.filter, loud: true, metadata: true, Failed: k.failed,
		known: kind{resource: m.Resource, name: gvk.Kind, namespaced: m.Scope == nil || m.Scope.Name() == meta.RESTScopeNameNamespace, watchable: true},
	}
	k.watch, _ = p.client.watcher.Watch(p.ctx, spec, k.changed, k.listed) // nothing is wrong with the spec
	p.kinds[gvk.GroupKind()] = k
	return k
}

// WatchedKind is one watch of a Presence, for tests.
type WatchedKind struct {
	Resource string // "deployments.apps"
	Objects  int
	Problem  string // why its objects are not watched; empty when all is well
	Polled   bool   // they are asked for from time to time instead
}

// WatchedKinds lists the watches, by resource.
func (p *Presence) WatchedKinds() []WatchedKind {
	p.mu.Lock()
	kinds := slices.Collect(maps.Values(p.kinds))
	p.mu.Unlock()
	out := make([]WatchedKind, 0, len(kinds))
	for _, k := range kinds {
		state := k.watch.State()
		w := WatchedKind{Resource: k.mapping.Resource.GroupResource().String(), Problem: state.Message, Polled: state.Phase == Forbidden}
		objects, _ := k.watch.Snapshot()
		for _, o := range objects {
			if isOurs(o.FilterResult) {
				w.Objects++
			}
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b WatchedKind) int { return strings.Compare(a.Resource, b.Resource) })
	return out
}

// presentKind is the watch of one kind, which calls its methods from one goroutine, but for filter.
type presentKind struct {
	presence *Presence
	mapping  *meta.RESTMapping
	watch    *Watch
	polled   time.Time     // last poll; only the goroutine of the Watch touches it
	once     sync.Once     // closes ready
	ready    chan struct{} // closed after the first list, or the first failure
	ended    <-chan struct{}
}

func (k *presentKind) begun() { k.once.Do(func() { close(k.ready) }) }

// listed looks for what is wanted and not in the list, which may be older.
func (k *presentKind) listed() {
	k.read(func(name types.NamespacedName) bool { return !k.has(name) })
	k.begun()
}

// has reports whether an object is there, and ours.
func (k *presentKind) has(name types.NamespacedName) bool {
	result, there := k.watch.result(objectKey{name.Namespace, name.Name})
	return there && isOurs(result)
}

// notOurs is the filter result of an object that is not ours, or no longer, because another client has
// changed its labels or annotations: it is gone for the operator.
const notOurs = "null"

func isOurs(result json.RawMessage) bool { return string(result) != notOurs }

// filter keeps what Changed needs. The version is part of it, so each one is a change.
func (k *presentKind) filter(object map[string]any) (json.RawMessage, error) {
	m := &metav1.PartialObjectMetadata{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, m); err != nil {
		return nil, err
	}
	if !k.presence.report.Ours(m) {
		return json.RawMessage(notOurs), nil
	}
	return json.Marshal(metav1.ObjectMeta{ResourceVersion: m.ResourceVersion, DeletionTimestamp: m.DeletionTimestamp, Finalizers: m.Finalizers})
}

// changed reports a change.
func (k *presentKind) changed(c Change) {
	name := types.NamespacedName{Namespace: c.Object.Namespace, Name: c.Object.Name}
	ours := isOurs(c.Object.FilterResult)
	switch {
	case c.Type == Deleted && ours, c.Type == Modified && !ours:
		k.presence.report.Gone(k.mapping.GroupVersionKind.GroupKind(), name)
	case ours && c.Type != Deleted:
		m := &metav1.PartialObjectMetadata{}
		_ = json.Unmarshal(c.Object.FilterResult, &m.ObjectMeta) // filter has written it
		m.Namespace, m.Name = name.Namespace, name.Name
		k.presence.report.Changed(k.mapping, m)
	}
}

// failed handles what the watch cannot show: a kind that may not be watched is polled. While the connection is lost,
// the absence of names is not sure.
func (k *presentKind) failed(err error) {
	if apierrors.IsForbidden(err) {
		if k.polled.IsZero() {
			k.presence.client.log.Warn("objects of releases cannot be watched and are polled: grant list and watch of this kind in all namespaces to detect deletions at once",
				"pause", k.presence.pause, "resource", k.mapping.Resource.GroupResource().String(), "err", err)
		}
		k.poll()
	}
	k.begun()
}

// poll reads all wanted objects, at most once in a pause. It is called each time that the watch is denied again, which
// is the clock of the polling.
func (k *presentKind) poll() {
	if time.Since(k.polled) >= k.presence.pause {
		k.polled = time.Now()
		k.read(func(types.NamespacedName) bool { return true })
	}
}

// read reads wanted objects of this kind one by one, and reports those that do not exist. After another error the
// state of an object is unknown: it is read again at the next list or poll.
func (k *presentKind) read(chosen func(types.NamespacedName) bool) {
	p, of := k.presence, k.mapping.GroupVersionKind.GroupKind()
	p.mu.Lock()
	var names []types.NamespacedName
	for _, objects := range p.wanted {
		names = append(names, objects[of]...)
	}
	p.mu.Unlock()
	for _, name := range names {
		if !chosen(name) {
			continue
		}
		m, err := p.client.metadata.Resource(k.mapping.Resource).Namespace(name.Namespace).Get(p.ctx, name.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			p.report.Gone(of, name)
		case err == nil:
			p.report.Changed(k.mapping, m)
		}
	}
}
