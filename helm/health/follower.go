package health

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
)

// Options configure a Follower. All but Log are required.
type Options struct {
	Client dynamic.Interface
	// Labels select the objects, when many are read with one list.
	Labels string
	// Report is called when the health of an object has changed, and for the first one that is
	// known. It must return at once, and must not call the Follower, whose lock is held.
	Report func(schema.GroupKind, types.NamespacedName, Health)
	Log    *slog.Logger // nil discards
}

// These set how often a follower reads. A kind whose objects change all the time costs one read a
// second for each object, or one list every five seconds for many.
const (
	workers = 4
	// few objects of a kind are read one by one, more with one list.
	few       = 20
	readPause = time.Second
	listPause = 5 * time.Second
	pageSize  = 50
	// retryPause is how long after a failed read the next one comes.
	retryPause = 10 * time.Second
)

// Follower keeps the health of objects up to date: Changed names what has changed, workers read it
// and report. It is safe for concurrent use.
type Follower struct {
	options Options
	queue   workqueue.TypedDelayingInterface[schema.GroupKind]

	mu    sync.Mutex
	kinds map[schema.GroupKind]*followed
}

// followed are the objects of one kind. The lock of the Follower guards it. The queue gives a kind
// to one worker at a time, so at most one read of it is in progress.
type followed struct {
	mapping *meta.RESTMapping
	due     map[types.NamespacedName]struct{} // changed since they were last read
	known   map[types.NamespacedName]known
	stale   map[types.NamespacedName]struct{} // gone or written since the read in progress began
	next    time.Time                         // objects of the kind are not read again before
	denied  bool                              // it was logged that they may not be read
	look    map[types.NamespacedName]struct{} // workloads in progress, whose Pods are looked at again at lookAt
	lookAt  time.Time
}

// known is what was read of an object.
type known struct {
	Health
	version string // resourceVersion; empty: of none
	pods    bool   // it is in progress, and has Pods
}

// NewFollower makes a follower that reads nothing until Run.
func NewFollower(o Options) *Follower {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Follower{
		options: o,
		queue:   workqueue.NewTypedDelayingQueue[schema.GroupKind](),
		kinds:   map[schema.GroupKind]*followed{},
	}
}

// Run reads what Changed names, until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, f.queue.ShutDown)
	defer stop()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				kind, ended := f.queue.Get()
				if ended {
					return
				}
				f.read(ctx, kind)
				f.queue.Done(kind)
			}
		})
	}
	running.Wait()
}

// Changed notifies the follower that an object exists in this version. It returns at once.
func (f *Follower) Changed(m *meta.RESTMapping, o *metav1.PartialObjectMetadata) {
	kind, name, version := m.GroupVersionKind.GroupKind(), types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, o.ResourceVersion
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.kinds[kind]
	if k == nil {
		k = &followed{due: map[types.NamespacedName]struct{}{}, known: map[types.NamespacedName]known{}, stale: map[types.NamespacedName]struct{}{}, look: map[types.NamespacedName]struct{}{}}
		f.kinds[kind] = k
	}
	k.mapping = m // the kind may be served in another version than before
	delete(k.stale, name)
	if !HasStatus(kind) {
		now, deleted := deleting(o)
		if !deleted {
			now.State = Current
		}
		f.learn(kind, k, name, known{Health: now})
		return
	}
	if old, ok := k.known[name]; ok && version != "" && old.version == version {
		return // as it is after each new list of a watch
	}
	k.due[name] = struct{}{}
	f.queue.AddAfter(kind, time.Until(k.next))
}

// Again notifies the follower that an object was just written: its assessment may be out of date, so it is read
// again, and reported also when its health is the same. A read in progress does not count. Again
// returns at once.
func (f *Follower) Again(kind schema.GroupKind, name types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.kinds[kind]
	if k == nil {
		return
	}
	old, ok := k.known[name]
	switch {
	case !ok: // its first report is still to come
	case !HasStatus(kind):
		f.options.Report(kind, name, old.Health)
	default:
		delete(k.known, name)
		k.stale[name] = struct{}{}
		k.due[name] = struct{}{}
		f.queue.AddAfter(kind, time.Until(k.next))
	}
}

// Gone notifies the follower that an object does not exist any more, or is no longer ours. It returns at once.
func (f *Follower) Gone(kind schema.GroupKind, name types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.kinds[kind]; k != nil {
		delete(k.due, name)
		delete(k.look, name)
		delete(k.known, name)
		k.stale[name] = struct{}{}
	}
}

// Get returns what is known of an object. One that was not read yet is Unknown.
func (f *Follower) Get(kind schema.GroupKind, name types.NamespacedName) Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.kinds[kind]; k != nil {
		if known, ok := k.known[name]; ok {
			return known.Health
		}
	}
	return Health{State: Unknown}
}

// learn keeps the health of an object, and reports it if it is another one than before. The caller
// holds the lock, so reports about an object arrive in order.
func (f *Follower) learn(kind schema.GroupKind, k *followed, name types.NamespacedName, now known) {
	old, ok := k.known[name]
	k.known[name] = now
	if !ok || old.Health != now.Health {
		f.options.Report(kind, name, now.Health)
	}
}

// read reads the objects of a kind that are due. The lock is not held meanwhile, so what was read
// of an object does not count if Gone or Again has come for it since. After an error, objects that
// were not read are Unknown, and due again.
func (f *Follower) read(ctx context.Context, kind schema.GroupKind) {
	f.mu.Lock()
	k := f.kinds[kind]
	if !time.Now().Before(k.lookAt) {
		maps.Copy(k.due, k.look)
		clear(k.look)
	}
	due, mapping := k.due, k.mapping
	if wait := time.Until(k.next); wait > 0 && len(due) > 0 { // added again while it was read
		f.queue.AddAfter(kind, wait)
		due = nil
	}
	if len(due) == 0 {
		f.lookLater(kind, k)
		f.mu.Unlock()
		return
	}
	k.due = map[types.NamespacedName]struct{}{}
	clear(k.stale)
	f.mu.Unlock()

	found, pause, err := f.fetch(ctx, mapping, due)
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range due {
		if _, stale := k.stale[name]; stale {
			continue
		}
		object, ok := found[name]
		switch {
		case ok:
			f.learn(kind, k, name, object)
			if object.pods {
				k.look[name] = struct{}{}
				k.lookAt = time.Now().Add(podsLook)
			}
		case err != nil:
			f.learn(kind, k, name, known{Health: Health{State: Unknown, Message: brief(err.Error())}})
			k.due[name] = struct{}{}
		}
	}
	if err != nil && ctx.Err() == nil {
		pause = retryPause
		f.failed(k, err)
	} else {
		k.denied = false
	}
	k.next = time.Now().Add(pause)
	if len(k.due) > 0 {
		f.queue.AddAfter(kind, pause)
	}
	f.lookLater(kind, k)
}

// lookLater has workloads read again that are in progress. The caller holds the lock.
func (f *Follower) lookLater(kind schema.GroupKind, k *followed) {
	if len(k.look) > 0 {
		f.queue.AddAfter(kind, time.Until(k.lookAt))
	}
}

// failed logs the first of consecutive failures. The caller holds the lock.
func (f *Follower) failed(k *followed, err error) {
	if k.denied {
		return
	}
	k.denied = true
	fix := "they are read again at intervals"
	if apierrors.IsForbidden(err) {
		fix = "grant get and list of this kind to see it"
	}
	f.options.Log.Warn("health of objects of releases is unknown: "+fix, "resource", k.mapping.Resource.GroupResource().String(), "err", err)
}

// fetch assesses objects: few of them one by one, many with a list in pages, of which none is kept.
// What does not exist is not in the result. After an error the result has what was read before.
func (f *Follower) fetch(ctx context.Context, m *meta.RESTMapping, names map[types.NamespacedName]struct{}) (found map[types.NamespacedName]known, pause time.Duration, err error) {
	found = make(map[types.NamespacedName]known, len(names))
	looks := 0
	assess := func(object *unstructured.Unstructured) known {
		now := known{Of(object), object.GetResourceVersion(), false}
		if now.State != InProgress && now.State != Failed || !hasPods(object) {
			return now
		}
		now.pods = true
		if looks++; looks <= few && replicaFailure(object) == "" {
			if why := f.refusal(ctx, object); why != "" {
				now.Message = brief(after(now.Message, why))
			}
		}
		return now
	}
	if len(names) > few {
		err := f.list(ctx, m, func(object *unstructured.Unstructured) {
			name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
			if _, wanted := names[name]; wanted {
				found[name] = assess(object)
			}
		})
		return found, listPause, err
	}
	for _, name := range slices.SortedFunc(maps.Keys(names), compareNames) {
		object, err := f.options.Client.Resource(m.Resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err): // Gone comes
		case err != nil:
			return found, readPause, fmt.Errorf("get %s %s: %w", m.GroupVersionKind.Kind, name, err)
		default:
			found[name] = assess(object)
		}
	}
	return found, readPause, nil
}

// list reads all objects of a kind that have the labels, in all namespaces, page by page.
func (f *Follower) list(ctx context.Context, m *meta.RESTMapping, each func(*unstructured.Unstructured)) error {
	options := metav1.ListOptions{LabelSelector: f.options.Labels, Limit: pageSize}
	for {
		page, err := f.options.Client.Resource(m.Resource).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list %s: %w", m.Resource.GroupResource(), err)
		}
		for i := range page.Items {
			each(&page.Items[i])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

func compareNames(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }
