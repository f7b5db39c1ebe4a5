package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/kube"
)

// WatchObjects is the watch of a kubernetes binding, as kube.Watcher has it, which reports changes in the goroutine that
// makes them. It ends with its context. The functions are called with the lock of the store held, so they may not call
// the server.
func (s *Server) WatchObjects(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (*kube.Watch, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.watcher.Watch(ctx, spec, notify, synced)
}

// Kind implements kube.Origin.
func (s *store) Kind(apiVersion, word string) (resource schema.GroupVersionResource, name string, namespaced, found bool) {
	k := s.kinds.find(apiVersion, word)
	if k == nil {
		return resource, "", false, false
	}
	return k.WithResource(k.plural), k.name, k.namespaced, true
}

// feed is a share of a watch of the operator.
type feed struct {
	*kube.Feed
	selection
}

// Feed implements kube.Origin.
func (s *store) Feed(f *kube.Feed) {
	selected, _ := newSelection(f.Labels, f.Fields) // kube has checked them
	selected.resource, selected.namespace = f.Resource.GroupResource(), f.Namespace
	next := feed{f, selected}
	s.feeds = append(s.feeds, next)
	s.begin(next)
}

// begin lists the objects of a feed, unless they may not be read.
func (s *store) begin(f feed) {
	if s.refused(f) {
		f.Refuse(apierrors.NewForbidden(f.resource, "", errors.New("no rule allows it")))
		return
	}
	var list []*unstructured.Unstructured
	for _, at := range s.keys(f.matches) {
		list = append(list, withoutManagers(s.objects[at]))
	}
	f.List(list)
}

// see passes a change on; the caller holds the store's lock.
func (s *store) see(f feed, e event) {
	if s.refused(f) {
		return
	}
	switch change, u := f.shows(e); change {
	case "":
	case "DELETED":
		f.Remove(withoutManagers(u))
	default:
		f.Put(withoutManagers(u))
	}
}

func (s *store) refused(f feed) bool {
	return s.denied[key{resource: f.resource}] || s.denied[key{resource: f.resource, namespace: f.namespace}]
}

// Deny takes the permission to read a kind from the watches of the operator, in one namespace or,
// if that is empty, everywhere; or gives it back. A watch over all namespaces has one permission
// for all of them, other watches one for each namespace. Changes are not reported while the
// permission lacks.
func (s *Server) Deny(word, namespace string, denied bool) error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	k := s.store.kinds.find("", word)
	if k == nil {
		return fmt.Errorf("there is no kind %s", word)
	}
	s.store.denied[key{resource: k.resource(), namespace: namespace}] = denied
	for _, f := range s.store.current() {
		if f.resource == k.resource() {
			s.store.begin(f)
		}
	}
	return nil
}

// current are the feeds that have not ended. Reports may begin new ones.
func (s *store) current() []feed {
	s.feeds = slices.DeleteFunc(s.feeds, feed.Ended)
	return slices.Clone(s.feeds)
}
