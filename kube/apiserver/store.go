package apiserver

import (
	"cmp"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/kube"
	"addon-operator/kube/fields"
)

// store keeps the objects, and handles them as an API server and its garbage collector do.
// Requests create, update, delete and get, which take the lock, as served does; the
// caller of the other methods holds it.
//
// Every change goes through commit or commitGone, which count it, add it to the history, and notify
// the watches of the operator in the same goroutine. So when a caller has its answer, the operator has
// been notified.
type store struct {
	mu      sync.Mutex
	number  int64                              // the last resource version, one count for all kinds
	objects map[key]*unstructured.Unstructured // with managedFields; never written to
	kinds   kinds                              // define makes them again when a definition changes, and the checker
	checker *fields.Checker
	history history
	watcher *kube.Watcher // of the operator
	feeds   []feed        // of its watches, in the order in which they began
	denied  map[key]bool  // what these may not read: resources in a namespace, or in all

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
		kinds: kinds{all: served, fixed: len(served)}, checker: fields.New(), denied: map[key]bool{},
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

// compare orders objects as the storage of a cluster does: "a-b/x" is before "a/x".
func (k key) compare(other key) int {
	return cmp.Or(
		cmp.Compare(k.resource.String(), other.resource.String()),
		cmp.Compare(k.namespace+"/"+k.name, other.namespace+"/"+other.name),
	)
}

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
	var crds []map[string]any
	for _, key := range s.definitions() {
		crds = append(crds, s.objects[key].Object)
		if s.objects[key].GetDeletionTimestamp() == nil {
			defined = append(defined, definedKinds(s.objects[key])...)
		}
	}
	s.kinds.define(defined)
	s.checker = fields.New(crds...)
}

// keys are those of some objects. Their order makes what happens to objects the same in each run.
func (s *store) keys(chosen func(at key, u *unstructured.Unstructured) bool) (list []key) {
	for at, u := range s.objects {
		if chosen(at, u) {
			list = append(list, at)
		}
	}
	slices.SortFunc(list, key.compare)
	return list
}

// definitions are the keys of the CustomResourceDefinitions.
func (s *store) definitions() []key {
	return s.keys(func(at key, _ *unstructured.Unstructured) bool { return at.resource == definitions })
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
