package kube

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kindsSettle is how long after its definition a new kind may appear in discovery.
const kindsSettle = 10 * time.Second

// WatchKinds begins to watch the definitions of kinds, until ctx ends. unchanged
// reports whether the kinds of the API server are surely the same as at a time,
// so that an answer from then is still valid. It waits until the watches have listed everything,
// or have failed to.
func (c *Client) WatchKinds(ctx context.Context) (unchanged func(ctx context.Context, since time.Time) bool) {
	var watches []*kindWatch
	for _, resource := range []schema.GroupVersionResource{
		crdResource(),
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
	} {
		k := &kindWatch{ready: make(chan struct{})}
		watches = append(watches, k)
		c.WatchMetadata(ctx, resource, "", "", k)
	}
	return func(ctx context.Context, since time.Time) bool {
		for _, k := range watches {
			if !k.quiet(ctx, since) {
				return false
			}
		}
		return true
	}
}

// kindWatch notes when definitions of kinds changed. While it is not connected, they may change at
// any time. It is the store of a watch of metadata.
type kindWatch struct {
	once  sync.Once
	ready chan struct{} // closed when the first request has succeeded or failed

	mu        sync.Mutex
	connected bool
	changed   time.Time // what was learned before this is old; it may be in the future
}

// Set implements MetadataStore.
func (k *kindWatch) Set(*metav1.PartialObjectMetadata) { k.change() }

// Unset implements MetadataStore.
func (k *kindWatch) Unset(*metav1.PartialObjectMetadata) { k.change() }

// Replace implements MetadataStore.
func (k *kindWatch) Replace([]*metav1.PartialObjectMetadata, string) { k.change() }

func (k *kindWatch) change() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.connected { // else Alive reports it
		k.changed = time.Now().Add(kindsSettle)
	}
}

// Alive implements MetadataStore.
func (k *kindWatch) Alive() { k.connect(true) }

// Failed implements MetadataStore.
func (k *kindWatch) Failed(error) { k.connect(false) }

func (k *kindWatch) connect(yes bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if yes && !k.connected {
		if again := !k.changed.IsZero(); again { // a definition may have changed meanwhile, a moment ago
			k.changed = time.Now().Add(kindsSettle)
		} else {
			k.changed = time.Now()
		}
	}
	k.connected = yes
	k.once.Do(func() { close(k.ready) })
}

// quiet reports whether what was learned at some time is true now.
func (k *kindWatch) quiet(ctx context.Context, learned time.Time) bool {
	select {
	case <-k.ready:
	case <-ctx.Done():
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.connected && learned.After(k.changed)
}
