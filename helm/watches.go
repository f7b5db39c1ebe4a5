package helm

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// Watcher keeps stores equal to the metadata of objects. Package kube implements
// it (Client.WatchMetadata), and its comment is the contract.
type Watcher interface {
	WatchMetadata(ctx context.Context, resource schema.GroupVersionResource, namespace, labels string, store cache.ReflectorStore, failed func(error))
}

// News is what the watches tell of, each from a goroutine of a watch. Both must
// return at once.
type News struct {
	// Gone: an object that belongs to a release of the namespace was deleted, or
	// lost the label or the annotation that says so (H13).
	Gone func(Object)
	// Changed: somebody else wrote or deleted the records of this release.
	Changed func(release string)
}

// Watch makes the Client see what others do to releases and their objects,
// until ctx ends: from then on an Apply that finds nothing to do makes no
// request. One watch serves all release records, one each kind of object that
// any release has, and two the kinds themselves.
//
// What the watches know may be a moment late. That does no harm: everything
// written carries the resourceVersion that was read, or creates what must not
// exist; an object that seems absent is asked for; and what Apply did not see
// yet is told by News afterwards. Watch is called once, before the first Apply;
// without Options.Watcher it does nothing.
func (c *Client) Watch(ctx context.Context, news News) {
	if c.options.Watcher == nil {
		return
	}
	c.records.changed = news.Changed
	c.records.busy = c.locks.busy
	c.presence.start(ctx, news.Gone)
	c.options.Watcher.WatchMetadata(ctx, secretsResource(), c.options.Namespace, labels.Set{"owner": "helm"}.String(), c.records.store(), c.records.lost)
	var alarms []*alarm
	for _, resource := range []schema.GroupVersionResource{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
	} {
		alarm := newAlarm()
		alarms = append(alarms, alarm)
		c.options.Watcher.WatchMetadata(ctx, resource, "", "", metadataStore{
			set:     func(*metav1.PartialObjectMetadata) { alarm.ring() },
			unset:   func(*metav1.PartialObjectMetadata) { alarm.ring() },
			replace: func([]*metav1.PartialObjectMetadata, string) { alarm.ring() },
			alive:   alarm.alive,
		}, func(error) { alarm.lost() })
	}
	c.discovery.watch(alarms)
}

// metadataStore makes a store of functions. Everything that comes proves that
// the watch is alive.
type metadataStore struct {
	set, unset func(*metav1.PartialObjectMetadata)
	replace    func(all []*metav1.PartialObjectMetadata, resourceVersion string)
	alive      func()
}

var (
	_ cache.TransformingStore      = metadataStore{}
	_ cache.ReflectorBookmarkStore = metadataStore{}
)

// Add implements cache.ReflectorStore.
func (s metadataStore) Add(object any) error { return s.Update(object) }

// Update implements cache.ReflectorStore.
func (s metadataStore) Update(object any) error {
	if m, ok := object.(*metav1.PartialObjectMetadata); ok {
		s.set(m)
	}
	s.alive()
	return nil
}

// Delete implements cache.ReflectorStore.
func (s metadataStore) Delete(object any) error {
	if m, ok := object.(*metav1.PartialObjectMetadata); ok {
		s.unset(m)
	}
	s.alive()
	return nil
}

// Replace implements cache.ReflectorStore.
func (s metadataStore) Replace(objects []any, resourceVersion string) error {
	all := make([]*metav1.PartialObjectMetadata, 0, len(objects))
	for _, object := range objects {
		if m, ok := object.(*metav1.PartialObjectMetadata); ok {
			all = append(all, m)
		}
	}
	s.replace(all, resourceVersion)
	s.alive()
	return nil
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (s metadataStore) Bookmark(string) error {
	s.alive()
	return nil
}

// Resync implements cache.ReflectorStore.
func (metadataStore) Resync() error { return nil }

// Transformer implements cache.TransformingStore: most of the metadata of an
// object says who manages its fields, and nobody here asks.
func (metadataStore) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if m, ok := object.(*metav1.PartialObjectMetadata); ok {
			m.ManagedFields = nil
		}
		return object, nil
	}
}

// kindsSettle is how long discovery may tell of a new kind later than its
// definition does.
const kindsSettle = 10 * time.Second

// alarm rings when kinds of the API server may have changed. One that is not
// connected rings always.
type alarm struct {
	once  sync.Once
	ready chan struct{} // closed at the first sign of life, or of none

	mu        sync.Mutex
	connected bool
	since     time.Time // what was learned before this is old
	settled   time.Time // until then it grows old at once
}

func newAlarm() *alarm { return &alarm{ready: make(chan struct{})} }

func (a *alarm) ring() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.connected { // else it rings anyway
		a.since = time.Now()
		a.settled = a.since.Add(kindsSettle)
	}
}

func (a *alarm) alive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.connected {
		a.connected, a.since = true, time.Now()
	}
	a.once.Do(func() { close(a.ready) })
}

func (a *alarm) lost() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.connected = false
	a.once.Do(func() { close(a.ready) })
}

// quiet tells whether what was learned at some time is true now.
func (a *alarm) quiet(learned time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.connected && learned.After(a.since) && time.Now().After(a.settled)
}
