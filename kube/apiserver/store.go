package apiserver

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/kube"
	"addon-operator/kube/fields"
)

// store keeps the objects, and handles them as an API server and its garbage collector do.
// Requests create, update, delete, get and now, which take the lock, as served does; the
// caller of the other methods holds it.
//
// Every change goes through commit or commitGone, which count it, add it to the history, and notify
// the watches of the operator in the same goroutine. So when a caller has its answer, the operator has
// been notified.
type store struct {
	mu      sync.Mutex
	number  int64                              // the last resource version, one count for all kinds
	objects map[key]*unstructured.Unstructured // with managedFields; never written to
	kinds   kinds                              // define makes them again when a definition changes
	history history
	watcher *kube.Watcher  // of the operator
	feeds   []feed         // of its watches, in the order in which they began
	denied  map[share]bool // what these may not read

	// The observers of OnGone, OnRequest and OnUnknownField are called with the lock held; nil:
	// none.
	gone    func(object map[string]any)
	review  func(Request) error
	unknown func(object map[string]any, p fields.Problem)

	running bool // workloads count as running
}

func newStore(served []*kind) *store {
	s := &store{
		number: firstVersion, objects: map[key]*unstructured.Unstructured{}, history: newHistory(firstVersion),
		kinds: kinds{all: served, fixed: len(served)}, denied: map[share]bool{},
	}
	s.watcher = kube.NewFedWatcher(s)
	return s
}

// firstVersion makes versions look like those of a cluster that is in use, and cross from three
// digits to four early: code that expects small numbers, or compares texts, is found out.
const firstVersion = 998

// key names an object. All versions of its kind share it; the namespace is empty for a cluster-wide
// kind.
type key struct {
	resource        schema.GroupResource
	namespace, name string
}

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.resource.String(), other.resource.String()), cmp.Compare(k.path(), other.path()))
}

// path orders objects as the storage of a cluster does: "a-b/x" is before "a/x".
func (k key) path() string { return k.namespace + "/" + k.name }

// served are the kinds of now.
func (s *store) served() kinds {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kinds
}

// define reads the CustomResourceDefinitions again. The kinds of one that is being deleted are not
// served any more, although its objects may still be held by finalizers.
func (s *store) define() {
	var defined []*kind
	for _, key := range s.sortedKeys(definitions) {
		if s.objects[key].GetDeletionTimestamp() == nil {
			defined = append(defined, definedKinds(s.objects[key])...)
		}
	}
	s.kinds.define(defined)
}

// sortedKeys makes the order of what happens to objects the same in each run.
func (s *store) sortedKeys(resource schema.GroupResource) []key {
	var keys []key
	for k := range s.objects {
		if k.resource == resource {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, key.compare)
	return keys
}

// get returns the stored object itself, which the caller must not change.
func (s *store) get(k *kind, namespace, name string) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.objects[key{k.resource(), namespace, name}]; u != nil {
		return u, nil
	}
	return nil, apierrors.NewNotFound(k.resource(), name)
}

// now are the objects, and their version. The map is the caller's, its objects are not.
func (s *store) now() (map[key]*unstructured.Unstructured, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects), s.number
}
