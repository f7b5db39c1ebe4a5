package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// MetadataStore receives the metadata of objects, from one goroutine. It is a
// name for the methods, not a type of its own, so that packages which may not import this one can
// declare an interface with WatchMetadata.
type MetadataStore = interface {
	Set(*metav1.PartialObjectMetadata)   // an object is there, or has changed
	Unset(*metav1.PartialObjectMetadata) // an object is gone; its last metadata
	Replace(all []*metav1.PartialObjectMetadata, resourceVersion string)
	Alive()       // after each answer: what was received is complete and up to date
	Failed(error) // a request failed: what was received is out of date until Alive
}

// WatchMetadata keeps store equal to the metadata of the objects of a resource,
// until ctx ends. It returns at once. An empty namespace means all, an empty
// selector every object. A resource that does not exist is requested every few
// seconds, a forbidden one every half minute.
func (c *Client) WatchMetadata(ctx context.Context, resource schema.GroupVersionResource, namespace, labels string, store MetadataStore) {
	api := c.metadata.Resource(resource).Namespace(namespace)
	key := sourceKey{resource: resource, namespace: namespace, labels: labels}
	follow := &feed{
		name:     "metadata of " + key.String(),
		key:      key,
		watches:  c.watches,
		wentBack: c.wentBack,
		store:    metadataReflection{store},
		log:      c.log,
		failed:   store.Failed,
		first: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return api.List(ctx, o)
		},
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = labels
			return api.List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = labels
			return api.Watch(ctx, o)
		},
	}
	go follow.run(ctx)
}

// metadataReflection translates the calls of a reflector for a MetadataStore.
type metadataReflection struct{ store MetadataStore }

var (
	_ cache.TransformingStore      = metadataReflection{}
	_ cache.ReflectorBookmarkStore = metadataReflection{}
)

// Add implements cache.ReflectorStore.
func (r metadataReflection) Add(object any) error { return r.Update(object) }

// Update implements cache.ReflectorStore.
func (r metadataReflection) Update(object any) error {
	if m, ok := object.(*metav1.PartialObjectMetadata); ok {
		r.store.Set(m)
	}
	r.store.Alive()
	return nil
}

// Delete implements cache.ReflectorStore.
func (r metadataReflection) Delete(object any) error {
	if m, ok := object.(*metav1.PartialObjectMetadata); ok {
		r.store.Unset(m)
	}
	r.store.Alive()
	return nil
}

// Replace implements cache.ReflectorStore.
func (r metadataReflection) Replace(objects []any, resourceVersion string) error {
	all := make([]*metav1.PartialObjectMetadata, 0, len(objects))
	for _, object := range objects {
		if m, ok := object.(*metav1.PartialObjectMetadata); ok {
			all = append(all, m)
		}
	}
	r.store.Replace(all, resourceVersion)
	r.store.Alive()
	return nil
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (r metadataReflection) Bookmark(string) error {
	r.store.Alive()
	return nil
}

// Resync implements cache.ReflectorStore.
func (metadataReflection) Resync() error { return nil }

// Transformer implements cache.TransformingStore: most of the metadata of an
// object are the managers of its fields, which are not used here.
func (metadataReflection) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if m, ok := object.(*metav1.PartialObjectMetadata); ok {
			m.ManagedFields = nil
		}
		return object, nil
	}
}
