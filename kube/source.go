package kube

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// pageSize bounds the memory of a list that cannot be streamed, in objects.
const pageSize = 100

// sourceKey is what distinguishes sources: Watches with an equal key share one. The selectors
// are in a normal form (labelText), because they are compared as texts.
type sourceKey struct {
	resource  schema.GroupVersionResource
	namespace string // empty: all
	labels    string
	fields    string
}

// String names the source in logs and states: "secrets in namespace a".
func (k sourceKey) String() string {
	text := k.resource.GroupResource().String()
	if k.fields != "" {
		text += " with " + k.fields
	}
	if k.labels != "" {
		text += " labelled " + k.labels
	}
	if k.namespace != "" {
		text += " in namespace " + k.namespace
	}
	return text
}

// gvr names the resource for metrics: "apps/v1/deployments", "v1/pods".
func (k sourceKey) gvr() string {
	return k.resource.GroupVersion().String() + "/" + k.resource.Resource
}

// source hands the events of one reflector to its parts; Watches of the same selection share it. It
// keeps no objects: each part keeps what its filter leaves of them. A part that comes when the reflector watches needs the
// objects, too: the reflector lists again, for all parts, and to the others that list shows nothing new.
type source struct {
	key  sourceKey
	feed feed
	api  dynamic.ResourceInterface
	seed maphash.Seed
	log  *slog.Logger

	// Held while parts receive an event or a list, so that a part sees each change exactly once,
	// however it joins or leaves. The lock of a Watch is taken after it.
	mu    sync.Mutex
	parts []*part // receive each list and, from then on, each event
	batch *batch  // the list that is due, or in progress, is made for these; nil: the reflector watches
	lists int     // complete lists of the reflector
}

var _ cache.TransformingStore = (*source)(nil)

func newSource(key sourceKey, api dynamic.ResourceInterface, seed maphash.Seed, log *slog.Logger) *source {
	s := &source{key: key, api: api, seed: seed, log: log, batch: &batch{}}
	s.feed = feed{
		name: key.String(), key: key, watches: unwatched{}, store: s, log: log, missing: s.kindMissing, again: make(signal, 1),
		list: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			list, err := s.pages(ctx, s.startList())
			s.refused(err)
			return list, err
		},
		first: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if strings.HasPrefix(key.fields, metav1.ObjectNameField+"=") { // a role may allow to list these names only
				o.FieldSelector = key.fields
			}
			return api.List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil && *o.SendInitialEvents {
				s.startList()
				o.ResourceVersion = s.firstVersion(o.ResourceVersion)
			}
			o.LabelSelector, o.FieldSelector = key.labels, key.fields
			stream, err := api.Watch(ctx, o)
			s.refused(err)
			return stream, err
		},
	}
	return s
}

// refused notes that the reflector may not read any more (C17). What the parts have is as of then;
// the reflector begins with a new list when it may again, and until that is complete they are not,
// though the request for it has been granted.
func (s *source) refused(err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		p.unlisted()
	}
}

// firstVersion returns the version at which a streamed list may begin. The first list takes
// the cache of the API server, "0", as informers do: for a list that is
// as new as the latest write to any object, the API server waits for a notification
// from its store, up to 100 ms, and a converge writes all the time. Nothing is
// lost by it: objects that the list lacks follow as events. Later lists,
// which replace lost events, must not go back in time.
func (s *source) firstVersion(asked string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if asked == "" && s.lists == 0 {
		return "0"
	}
	return asked
}

// startList fixes which parts the list that starts now is for.
func (s *source) startList() *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batch = &batch{parts: slices.Clone(s.parts)}
	return s.batch
}

// pages lists everything in one consistent state, cutting each page down to
// what the batch keeps before it asks for the next.
func (s *source) pages(ctx context.Context, b *batch) (*metainternalversion.List, error) {
	options := metav1.ListOptions{LabelSelector: s.key.labels, FieldSelector: s.key.fields, Limit: pageSize}
	list := &metainternalversion.List{}
	for {
		page, err := s.api.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			list.Items = append(list.Items, b.record(newDocument(&page.Items[i]), s.seed))
		}
		list.ResourceVersion = page.GetResourceVersion()
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return list, nil
		}
	}
}

// attach adds a part. It will be in the list that is due, or in another one.
func (s *source) attach(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, p)
	if s.batch == nil {
		s.feed.again.raise()
	}
}

// detach removes a part; it gets nothing after detach has returned.
func (s *source) detach(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = slices.DeleteFunc(s.parts, func(other *part) bool { return other == p })
}

// kindMissing notifies the Watches that their kind may be gone.
func (s *source) kindMissing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		p.watch.lost.raise()
	}
}

// Transformer cuts the objects of a streamed list down as they arrive. The
// reflector applies it to lists only; the events that follow come whole.
func (s *source) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		whole, ok := object.(*unstructured.Unstructured)
		if !ok {
			return object, nil
		}
		s.mu.Lock()
		b := s.batch
		s.mu.Unlock()
		return b.record(newDocument(whole), s.seed), nil
	}
}

// Replace takes a complete list. Parts turn the difference from their objects
// into changes, so that a second list (after a 410, for example) is notified like the
// events that it replaces.
func (s *source) Replace(objects []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed := s.batch.parts
	for i, p := range listed {
		if slices.Contains(s.parts, p) {
			p.replace(recordsOf(objects, i))
			p.joined = true
		}
	}
	s.lists++
	s.batch = nil
	if slices.ContainsFunc(s.parts, func(p *part) bool { return !p.joined }) { // it came while this list was in progress
		s.feed.again.raise()
	}
	return nil
}

// recordsOf collects the updates for the i-th part of a batch.
func recordsOf(objects []any, i int) []update {
	updates := make([]update, 0, len(objects))
	for _, object := range objects {
		if r, ok := object.(*record); ok {
			updates = append(updates, r.updates[i])
		}
	}
	return updates
}

// Add takes an ADDED event.
func (s *source) Add(object any) error { return s.event(object, (*part).put) }

// Update takes a MODIFIED event.
func (s *source) Update(object any) error { return s.event(object, (*part).put) }

// Delete takes a DELETED event.
func (s *source) Delete(object any) error { return s.event(object, (*part).remove) }

// Resync does nothing: parts keep what they have.
func (s *source) Resync() error { return nil }

// event filters an object for each part, and applies it to those that have had a list. The filters run
// with the lock held: a slow one delays the source, but each part must get the events in order.
func (s *source) event(object any, apply func(*part, update)) error {
	whole, ok := object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("watch %s: unexpected %T in the stream", s.feed.name, object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	document := newDocument(whole)
	for _, p := range s.parts {
		if p.joined {
			apply(p, document.update(&p.watch.spec, s.seed))
		}
	}
	return nil
}
