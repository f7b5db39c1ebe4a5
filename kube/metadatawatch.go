package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// WatchMetadata keeps store equal to the metadata of the objects of a resource,
// until ctx ends. It returns at once; the store is called from one goroutine
// with *metav1.PartialObjectMetadata, and its Replace tells that a list is
// complete. An empty namespace means all, an empty selector every object.
//
// failed is called from the same goroutine for each request that failed: the
// store is out of date until it is called again (Bookmark, too, where it has
// that method). A resource that does not exist is asked for each few seconds, a
// forbidden one each half minute.
func (c *Client) WatchMetadata(ctx context.Context, resource schema.GroupVersionResource, namespace, labels string, store cache.ReflectorStore, failed func(error)) {
	api := c.metadata.Resource(resource).Namespace(namespace)
	key := sourceKey{resource: resource, namespace: namespace, labels: labels}
	follow := &feed{
		name:   "metadata of " + key.String(),
		store:  store,
		log:    c.log,
		failed: failed,
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
