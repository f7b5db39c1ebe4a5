package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
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
		shared = w.newSource(key, w.client.api(key))
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
// goroutine that makes a change, so that a test which waits for the operator to be idle need not wait for a
// connection. All calls, in both directions, are made with the lock of the Origin held, but for those of Snapshot,
// State and Stop. What a Watch reports it must not call the Origin for.
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

// Watch is the cache of one binding and the stream of its changes. See Watcher.Watch.
//
// It has two goroutines: run keeps its parts, deliver calls changed and synced. Sources call the
// parts from goroutines of their own. All of them meet in the queue: what is queued with a lock
// held is delivered in the same order without one. A Watch of an Origin has no goroutine (watcher.go).
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
	queue      []func() // calls of notify, synced and Failed that are due, in order; Limit bounds what they come from
	bytes      int      // that the entries of all parts take
	overflowed bool     // that was too much: nothing is kept any more
	failures   uint64   // of the filter
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
	w.report(w.tooLarge())
}

func (w *Watch) tooLarge() error {
	return fmt.Errorf("its objects take more than %d bytes", w.spec.Limit)
}

// report queues a failure, if anybody wants to know. Called with w.mu.
func (w *Watch) report(err error) {
	if w.spec.Failed != nil && !w.stopped {
		w.enqueue(func() { w.spec.Failed(err) })
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

// noteFailure counts a failure of the filter and logs it, once for each object until it works again (C39). Called
// with w.mu.
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

// SnapshotLimit is how many bytes the snapshot of one binding may take (P5). It is a quarter
// of the memory of a container of usual size. Without a limit, any user with permission to create objects of a
// watched kind could exhaust the memory of the operator.
const SnapshotLimit = 128 << 20

// Spec selects the objects to watch, and the parts of them to keep (C15).
type Spec struct {
	APIVersion string   // "apps/v1", "v1"; empty: the preferred version of the kind
	Kind       string   // in any case; plural and short names too
	Names      []string // only these objects; empty: all
	Namespaces []string // only there; empty: everywhere. No effect on cluster-wide kinds

	Labels *metav1.LabelSelector // of the objects; nil: all

	// NamespaceLabels selects namespaces by their labels, also those that
	// start or stop to match later. When set, Namespaces is ignored.
	NamespaceLabels *metav1.LabelSelector

	Fields string // field selector, as kubectl takes it

	// KeepObjects keeps the objects as JSON, in addition to the filter results. Without
	// it only names, filter results and checksums are kept.
	KeepObjects bool

	// Limit is how many bytes the Watch may keep, with an overhead for each object;
	// 0 means any number. A Watch that would keep more forgets all, keeps nothing
	// from then on, and calls Failed.
	Limit int

	// Failed is called in order with notify and synced, when the State is another one: a request has failed, there is no
	// such kind, or the objects exceed the Limit. It may be nil.
	Failed func(error)

	// Filter makes the filter result of an object (C37); nil: none. It is
	// called from several goroutines and must not change the object. The
	// object has no managedFields.
	Filter func(object map[string]any) (json.RawMessage, error)

	// These are for what the operator watches itself.
	known    kind // where the objects are, before discovery is asked; the zero value: it is asked
	metadata bool // nothing else of the objects is read
	loud     bool // objects of the first list are notified like those that come later, before synced
}

// Object is a watched object: what of it is kept (C35).
type Object struct {
	Namespace string // empty for cluster-wide kinds
	Name      string

	Object       json.RawMessage // nil without KeepObjects
	FilterResult json.RawMessage // nil without Filter, or when it failed on this object
}

// The types of a Change, as hooks read them.
const (
	Added    = "Added"
	Modified = "Modified"
	Deleted  = "Deleted"
)

// Change is one change of the objects of a Watch. Seq counts from 1 in each
// Watch, without gaps. A Deleted object is in its last known state.
type Change struct {
	Seq    uint64
	Type   string // Added, Modified or Deleted
	Object Object
	// Version is the resourceVersion of Object; empty when a list showed that it is gone.
	Version string
}

// selection is a Spec with checked selectors, in the API's notation.
type selection struct {
	labels, fields string
}

// compile refuses a spec that can never be right.
func (s Spec) compile() (selection, error) {
	objects, errObjects := labelText(s.Labels)
	_, errNamespaces := labelText(s.NamespaceLabels)
	selector, err := fields.ParseSelector(s.Fields)
	if s.Kind == "" || slices.Contains(s.Names, "") || slices.Contains(s.Namespaces, "") {
		err = errors.New("kind is missing, or an empty name is among the names or namespaces")
	}
	if err := cmp.Or(err, errObjects, errNamespaces); err != nil {
		return selection{}, fmt.Errorf("watch %s: %w", kindLabel(s.APIVersion, s.Kind), err)
	}
	return selection{labels: objects, fields: selector.String()}, nil
}

// labelText writes a selector as the API takes it. Equal selectors give equal
// texts, whatever the order of their parts: sharing depends on it.
func labelText(selector *metav1.LabelSelector) (string, error) {
	if selector == nil {
		return "", nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "", err
	}
	return compiled.String(), nil
}

// scope is the share of a Watch that one source covers: one namespace or all
// (empty), one name or all (empty).
type scope = objectKey

// scopes are the shares of the spec in the given namespaces. They are disjoint.
func (s Spec) scopes(namespaces []string) map[scope]bool {
	names := s.Names
	if len(names) == 0 {
		names = []string{""}
	}
	shares := make(map[scope]bool, len(names)*len(namespaces))
	for _, namespace := range namespaces {
		for _, name := range names {
			shares[scope{namespace, name}] = true
		}
	}
	return shares
}

// fieldText is the field selector of one share.
func (s selection) fieldText(name string) string {
	if name == "" {
		return s.fields
	}
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	if s.fields == "" {
		return only
	}
	return only + "," + s.fields
}

// Phase is the phase of a Watch.
type Phase string

// The phases of a Watch.
const (
	Syncing        Phase = "syncing"          // the first list is on its way
	Complete       Phase = "complete"         // the cache is what the API server has
	WaitingForKind Phase = "waiting-for-kind" // no such kind, retried (C16)
	Forbidden      Phase = "forbidden"        // the role of the operator lacks a rule, retried (C17)
	TooLarge       Phase = "too-large"        // the objects exceed the limit of the Spec, nothing is kept
	Stale          Phase = "stale"            // the connection is lost, the cache is as of Since
)

// WatchState describes a Watch to people and metrics.
type WatchState struct {
	Phase   Phase
	Message string    // empty when all is well
	Since   time.Time // of the failure, when there is one

	// Incomplete: objects that belong into the snapshot were not listed yet, or not since the
	// permission was back. A kind that is gone has none.
	Incomplete bool

	APIVersion, Kind string // as the API server writes them; empty while not known

	Objects      int    // in the cache
	FilterErrors uint64 // failures of Filter (C39)
}

// State returns the phase of the Watch, with the reason. Of several problems it names the worst:
// a missing kind, then a denial, then a lost connection.
func (w *Watch) State() WatchState {
	state, sources, namespaces := w.ownState()
	for _, s := range sources {
		state.worsen(s.health.condition(), s.key.String())
	}
	if namespaces != nil && state.Phase != WaitingForKind {
		inner := namespaces.State()
		state.Incomplete = state.Incomplete || inner.Incomplete
		if severity(inner.Phase) > severity(state.Phase) {
			state.Phase, state.Message, state.Since = inner.Phase, inner.Message, inner.Since
		}
	}
	return state
}

// Whole reports whether a hook may see the snapshot (C17): it lacks nothing but changes that could
// not be read since the connection was lost.
func (s WatchState) Whole() bool {
	return !s.Incomplete && s.Phase != Forbidden && s.Phase != TooLarge
}

// current reports whether the Watch has what the API server has, and since when that is so without a break; zero: it
// always was. A kind that is gone has no objects.
func (w *Watch) current() (since time.Time, ok bool) {
	state, sources, _ := w.ownState()
	ok = state.Phase == Complete || state.Phase == WaitingForKind
	for _, s := range sources {
		c := s.health.condition()
		if ok = ok && !c.failing(); c.restored.After(since) {
			since = c.restored
		}
	}
	return since, ok
}

// result is the filter result of an object; false when the Watch has no such object.
func (w *Watch) result(key objectKey) (json.RawMessage, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.parts {
		if e, ok := p.entries[key]; ok {
			return e.result, true
		}
	}
	return nil, false
}

// ownState is the state without the condition of the reflectors, and what is needed to add it
// without the lock of the Watch.
func (w *Watch) ownState() (state WatchState, sources []*source, namespaces *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	state = WatchState{Phase: Syncing, FilterErrors: w.failures}
	complete := w.settled // also without a part: no namespace matches
	for _, p := range w.parts {
		if p.source != nil {
			sources = append(sources, p.source)
		}
		state.Objects += len(p.entries)
		complete = complete && p.listed
	}
	switch {
	case w.kind != nil:
		state.APIVersion, state.Kind = w.kind.apiVersion(), w.kind.name
	case errors.Is(w.problem, errNoKind):
		state.Phase = WaitingForKind
		state.Message = fmt.Sprintf("waiting for %s: %v", kindLabel(w.spec.APIVersion, w.spec.Kind), w.problem)
	case w.problem != nil:
		state.Message = w.problem.Error()
	}
	if complete {
		state.Phase = Complete
	}
	// A kind that was there and is gone has no objects. One that has never been there may yet bring
	// objects that the first Synchronization must have.
	gone := w.synced && errors.Is(w.problem, errNoKind)
	state.Incomplete = !complete && !gone
	if w.overflowed {
		state.Phase = TooLarge
		state.Message = w.tooLarge().Error()
	}
	return state, sources, w.namespaces
}

// worsen lets the state show the condition of a reflector, if that is worse.
func (s *WatchState) worsen(c condition, source string) {
	phase := Stale
	switch {
	case !c.failing():
		return
	case c.forbidden():
		phase = Forbidden
	}
	if severity(phase) <= severity(s.Phase) {
		return
	}
	s.Phase, s.Since = phase, c.since
	s.Message = fmt.Sprintf("stale since %s: %s %s: %v", c.since.Format(time.RFC3339), c.verb, source, c.err)
	if phase == Forbidden {
		s.Message = fmt.Sprintf("not allowed to %s %s: %v", c.verb, source, c.err)
	}
}

// severity orders the phases from the best to the worst: see State.
func severity(p Phase) int {
	better := []Phase{Complete, Syncing, Stale, Forbidden}
	if i := slices.Index(better, p); i >= 0 {
		return i
	}
	return len(better)
}
