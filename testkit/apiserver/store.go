package apiserver

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Server keeps the objects. Create it with New.
type Server struct {
	version string
	builtin []*kind

	mu      sync.Mutex
	number  int64 // the last resource version
	objects map[key]*unstructured.Unstructured
	history []event
	news    chan struct{} // closed at each change
	watches map[*watch]bool

	http *http.Server
	url  string
}

type key struct {
	resource        schema.GroupResource
	namespace, name string
}

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.resource.String(), other.resource.String()), cmp.Compare(k.namespace, other.namespace), cmp.Compare(k.name, other.name))
}

// event is a change of one object; before or after is nil. Stored objects are never
// written to.
type event struct {
	number        int64
	key           key
	before, after *unstructured.Unstructured
}

// New makes a server that says it is of the given version of Kubernetes, such as v1.33.0.
func New(version string) *Server {
	s := &Server{
		version: version, builtin: builtinKinds(),
		objects: map[key]*unstructured.Unstructured{}, news: make(chan struct{}), watches: map[*watch]bool{},
	}
	for _, name := range []string{"default", "kube-system"} {
		s.EnsureNamespace(name)
	}
	return s
}

// EnsureNamespace makes a namespace, unless it is there.
func (s *Server) EnsureNamespace(name string) {
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, _ = s.create(s.find("v1", "Namespace"), namespace, false) // it exists, then
}

// Apply creates an object or replaces it, status and all, as no client could. A
// namespace that is not there is made.
func (s *Server) Apply(object map[string]any) error {
	u := &unstructured.Unstructured{Object: object}
	u = u.DeepCopy()
	if u.GetKind() == "" || u.GetName() == "" || u.GetAPIVersion() == "" {
		return fmt.Errorf("an object needs apiVersion, kind and metadata.name; it has %q, %q, %q", u.GetAPIVersion(), u.GetKind(), u.GetName())
	}
	s.mu.Lock()
	k := s.find(u.GetAPIVersion(), u.GetKind())
	s.mu.Unlock()
	if k == nil {
		return fmt.Errorf("%s %s: there is no such kind; add its CustomResourceDefinition before it", u.GetAPIVersion(), u.GetKind())
	}
	switch {
	case k.namespaced && u.GetNamespace() == "":
		return fmt.Errorf("%s %s: it lives in a namespace; add metadata.namespace", u.GetKind(), u.GetName())
	case !k.namespaced && u.GetNamespace() != "":
		return fmt.Errorf("%s %s: it is cluster-wide; remove metadata.namespace", u.GetKind(), u.GetName())
	case k.namespaced:
		s.EnsureNamespace(u.GetNamespace())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := key{k.resource(), u.GetNamespace(), u.GetName()}
	before := s.objects[key]
	s.complete(k, u, before)
	s.commit(key, u)
	return nil
}

// Delete removes an object and reports whether there was one.
func (s *Server) Delete(apiVersion, word, namespace, name string) (bool, error) {
	s.mu.Lock()
	k := s.find(apiVersion, word)
	s.mu.Unlock()
	if k == nil {
		return false, fmt.Errorf("%s %s: there is no such kind", apiVersion, word)
	}
	_, err := s.delete(k, namespace, name, nil)
	return !apierrors.IsNotFound(err), nil
}

// Objects are copies of all objects, sorted by kind, namespace and name.
func (s *Server) Objects() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(s.objects), key.compare)
	list := make([]map[string]any, len(keys))
	for i, k := range keys {
		list[i] = s.objects[k].DeepCopy().Object
	}
	return list
}

func (s *Server) sortedKeys(resource schema.GroupResource) []key {
	var keys []key
	for k := range s.objects {
		if k.resource == resource {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, key.compare)
	return keys
}

func (s *Server) get(k *kind, namespace, name string) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.objects[key{k.resource(), namespace, name}]; u != nil {
		return u, nil
	}
	return nil, apierrors.NewNotFound(k.resource(), name)
}

func (s *Server) create(k *kind, u *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
	if u.GetName() == "" && u.GetGenerateName() != "" {
		u.SetName(u.GetGenerateName() + rand.String(5))
	}
	if u.GetName() == "" {
		return nil, apierrors.NewBadRequest("metadata.name is missing")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.namespaced && s.objects[key{schema.GroupResource{Resource: "namespaces"}, "", u.GetNamespace()}] == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, u.GetNamespace())
	}
	key := key{k.resource(), u.GetNamespace(), u.GetName()}
	if s.objects[key] != nil {
		return nil, apierrors.NewAlreadyExists(k.resource(), u.GetName())
	}
	if k.status {
		delete(u.Object, "status")
	}
	s.complete(k, u, nil)
	if !dry {
		s.commit(key, u)
	}
	return u, nil
}

// update changes an object to what change makes of a copy of it.
func (s *Server) update(k *kind, namespace, name, subresource string, dry bool, change func(*unstructured.Unstructured) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := key{k.resource(), namespace, name}
	before := s.objects[key]
	if before == nil {
		return nil, apierrors.NewNotFound(k.resource(), name)
	}
	after, err := change(before.DeepCopy())
	if err != nil {
		return nil, err
	}
	if v := after.GetResourceVersion(); v != "" && v != before.GetResourceVersion() {
		return nil, apierrors.NewConflict(k.resource(), name, fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	switch {
	case subresource == "status":
		only := before.DeepCopy()
		only.Object["status"] = after.Object["status"]
		after = only
	case k.status:
		if status, ok := before.DeepCopy().Object["status"]; ok {
			after.Object["status"] = status
		} else {
			delete(after.Object, "status")
		}
	}
	s.complete(k, after, before)
	if !dry && !equality.Semantic.DeepEqual(before.Object, after.Object) {
		if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
			s.commitGone(key)
		} else {
			s.commit(key, after)
		}
	}
	return after, nil
}

// complete fills in what an API server does.
func (s *Server) complete(k *kind, u, before *unstructured.Unstructured) {
	u.SetAPIVersion(k.String())
	u.SetKind(k.name)
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	if before == nil {
		if u.GetUID() == "" {
			u.SetUID(uuid.NewUUID())
		}
		if created := u.GetCreationTimestamp(); created.IsZero() {
			u.SetCreationTimestamp(metav1.NewTime(time.Now()))
		}
	} else {
		u.SetUID(before.GetUID())
		u.SetCreationTimestamp(before.GetCreationTimestamp())
		u.SetResourceVersion(before.GetResourceVersion())
		if before.GetDeletionTimestamp() != nil {
			u.SetDeletionTimestamp(before.GetDeletionTimestamp())
		}
	}
	completeKind(k, u)
}

// commit stores an object and tells it; the caller holds the lock.
func (s *Server) commit(key key, after *unstructured.Unstructured) {
	s.number++
	after.SetResourceVersion(strconv.FormatInt(s.number, 10))
	before := s.objects[key]
	s.objects[key] = after
	s.tell(event{s.number, key, before, after})
}

func (s *Server) commitGone(key key) {
	s.number++
	before := s.objects[key]
	delete(s.objects, key)
	s.tell(event{s.number, key, before, nil})
}

func (s *Server) tell(e event) {
	s.history = append(s.history, e)
	close(s.news)
	s.news = make(chan struct{})
	for _, w := range s.sortedWatches() {
		w.see(e)
	}
}

func (s *Server) delete(k *kind, namespace, name string, p *metav1.Preconditions) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := key{k.resource(), namespace, name}
	u := s.objects[at]
	if u == nil {
		return nil, apierrors.NewNotFound(k.resource(), name)
	}
	if p != nil && (p.UID != nil && *p.UID != u.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != u.GetResourceVersion()) {
		return nil, apierrors.NewConflict(k.resource(), name, fmt.Errorf("the precondition does not hold"))
	}
	if len(u.GetFinalizers()) > 0 {
		if u.GetDeletionTimestamp() == nil {
			u = u.DeepCopy()
			now := metav1.NewTime(time.Now())
			u.SetDeletionTimestamp(&now)
			s.commit(at, u)
		}
		return u, nil
	}
	if k.name == "Namespace" {
		for _, other := range slices.SortedFunc(maps.Keys(s.objects), key.compare) {
			if other.namespace == name {
				s.commitGone(other)
			}
		}
	}
	s.commitGone(at)
	s.collect(u.GetUID())
	return u, nil
}

// collect removes what an object that is gone has owned.
func (s *Server) collect(owner types.UID) {
	for _, at := range slices.SortedFunc(maps.Keys(s.objects), key.compare) {
		u := s.objects[at]
		if u != nil && slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner }) {
			s.commitGone(at)
			s.collect(u.GetUID())
		}
	}
}
