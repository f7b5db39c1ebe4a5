package apiserver

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Server keeps the objects. Create it with New.
type Server struct {
	version string
	builtin []*kind

	mu      sync.Mutex
	number  int64 // the last resource version
	objects map[key]*unstructured.Unstructured
	defined []*kind // by CustomResourceDefinitions
	history []event // those after version floor
	floor   int64
	news    chan struct{} // closed at each change
	watches map[*watch]bool
	denied  map[share]bool // may not be listed by watches of the operator
	begun   int64          // how many watches, for their order
	gone    func(object map[string]any)

	http        *http.Server
	url         string
	token       string           // what clients have to show; "": nothing
	certificate *tls.Certificate // nil: no TLS
}

type key struct {
	resource        schema.GroupResource
	namespace, name string
}

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.resource.String(), other.resource.String()), cmp.Compare(k.path(), other.path()))
}

// path orders objects as the storage of a cluster does: "a-b/x" is before "a/x".
func (k key) path() string { return k.namespace + "/" + k.name }

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
		version: version, builtin: builtinKinds(), number: firstVersion, floor: firstVersion,
		objects: map[key]*unstructured.Unstructured{}, news: make(chan struct{}), watches: map[*watch]bool{}, denied: map[share]bool{},
	}
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} { // as a kube-apiserver
		s.EnsureNamespace(name)
	}
	return s
}

// firstVersion is as many digits long as those of a cluster that is in use: who compares
// versions as texts, or as small numbers, is found out.
const firstVersion = 998

// EnsureNamespace makes a namespace, unless it is there.
func (s *Server) EnsureNamespace(name string) {
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, _ = s.create(s.find("v1", "Namespace"), namespace, write{}) // it exists, then
}

// Apply creates an object or replaces it, status and all, as no client could. A
// namespace that is not there is made. What changes nothing is no change.
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

// Kind is the apiVersion and kind that a word names: a kind, a resource, or a short name.
func (s *Server) Kind(word string) (apiVersion, kind string, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.find("", word); k != nil {
		return k.String(), k.name, true
	}
	return "", "", false
}

// Object is a copy of an object, nil when there is none.
func (s *Server) Object(apiVersion, word, namespace, name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.find(apiVersion, word)
	if k == nil {
		return nil
	}
	u := s.objects[key{k.resource(), namespace, name}]
	if u == nil {
		return nil
	}
	return withoutManagers(u).Object
}

// Delete removes an object and reports whether there was one.
func (s *Server) Delete(apiVersion, word, namespace, name string) (bool, error) {
	s.mu.Lock()
	k := s.find(apiVersion, word)
	s.mu.Unlock()
	if k == nil {
		return false, fmt.Errorf("%s %s: there is no such kind", apiVersion, word)
	}
	_, err := s.delete(k, namespace, name, deletion{})
	return !apierrors.IsNotFound(err), nil
}

// OnGone calls f with each object that is deleted from now on, in the goroutine that
// deletes it. f must return at once and may not call the server.
func (s *Server) OnGone(f func(object map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = f
}

// Objects are copies of all objects, sorted by kind, namespace and name.
func (s *Server) Objects() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(s.objects), key.compare)
	list := make([]map[string]any, len(keys))
	for i, k := range keys {
		list[i] = withoutManagers(s.objects[k]).Object
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
