package apiserver

import (
	"fmt"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"

	"addon-operator/kube"
)

// Server is an API server in memory. Create it with New or NewOf. Its methods are safe for
// concurrent use, but for Start, which comes first.
type Server struct {
	store    *store
	version  version.Info
	endpoint endpoint
	serving  atomic.Int64 // requests in progress
}

// New makes a server that reports the given version of Kubernetes, such as v1.33.0. The version
// changes nothing else: it serves the same kinds in each.
func New(kubernetes string) *Server {
	major, rest, _ := strings.Cut(strings.TrimPrefix(kubernetes, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	s := &Server{
		store:   newStore(builtinKinds()),
		version: version.Info{Major: major, Minor: minor, GitVersion: kubernetes, Platform: "linux/amd64"},
	}
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} { // as a kube-apiserver
		s.EnsureNamespace(name)
	}
	return s
}

// NewOf makes a server without objects that serves the kinds of another one, without their
// subresources, and reports its version. Kinds that are unknown to the other one, because a server does not answer,
// are unknown here, too (P13).
func NewOf(other kube.Discovery) *Server {
	var served kinds
	for _, list := range other.Kinds {
		for _, k := range listedKinds(list) {
			if served.at(k.GroupVersion, k.plural) == nil {
				served.all = append(served.all, k)
			}
		}
	}
	s := &Server{store: newStore(served.all), version: other.Version}
	s.store.kinds.away = other.Away
	return s
}

// EnsureNamespace makes a namespace, unless it is there.
func (s *Server) EnsureNamespace(name string) {
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, _ = s.store.create(s.store.served().find("v1", "Namespace"), namespace, write{}) // the error is that it exists
}

// Apply creates an object or replaces it, status and all, as no client could: the state that a
// scenario begins with, and what controllers would do. It checks no fields and calls no observer. A
// namespace that is not there is created. What changes nothing is no change. An object without apiVersion is of the
// first kind of its name. The errors are for authors of scenarios, and name the fix.
func (s *Server) Apply(object map[string]any) error {
	u := &unstructured.Unstructured{Object: object}
	u = u.DeepCopy()
	if u.GetKind() == "" || u.GetName() == "" {
		return fmt.Errorf("an object needs kind and metadata.name; it has %q, %q", u.GetKind(), u.GetName())
	}
	k := s.store.served().find(u.GetAPIVersion(), u.GetKind())
	if k == nil {
		name := strings.TrimSpace(u.GetAPIVersion() + " " + u.GetKind())
		return fmt.Errorf("%s: there is no such kind; add its CustomResourceDefinition before it", name)
	}
	switch {
	case k.namespaced && u.GetNamespace() == "":
		return fmt.Errorf("%s %s: it is namespaced; add metadata.namespace", u.GetKind(), u.GetName())
	case !k.namespaced && u.GetNamespace() != "":
		return fmt.Errorf("%s %s: it is cluster-wide; remove metadata.namespace", u.GetKind(), u.GetName())
	case k.namespaced:
		s.EnsureNamespace(u.GetNamespace())
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	key := key{k.resource(), u.GetNamespace(), u.GetName()}
	s.store.complete(k, u, s.store.objects[key])
	s.store.commit(key, u)
	return nil
}

// Object is a copy of an object without managedFields, nil when there is none or no such kind.
func (s *Server) Object(apiVersion, word, namespace, name string) map[string]any {
	k := s.store.served().find(apiVersion, word)
	if k == nil {
		return nil
	}
	u, err := s.store.get(k, namespace, name)
	if err != nil {
		return nil
	}
	return withoutManagers(u).Object
}

// Delete removes an object and reports whether there was one. As for a client, a finalizer may hold
// it. The error is that of an unknown kind.
func (s *Server) Delete(apiVersion, word, namespace, name string) (bool, error) {
	k := s.store.served().find(apiVersion, word)
	if k == nil {
		return false, fmt.Errorf("%s %s: there is no such kind", apiVersion, word)
	}
	_, err := s.store.delete(k, namespace, name, deletion{})
	return !apierrors.IsNotFound(err), nil
}

// OnGone calls f with each object that is removed from now on, also as garbage of another one, in
// the goroutine of the request that removes it. f must return at once and may not call the server,
// whose lock is held. A second call replaces the first f; so it is with OnRequest and
// OnUnknownField.
func (s *Server) OnGone(f func(object map[string]any)) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.gone = f
}

// Busy reports whether a request of a client is in progress, other than a watch.
func (s *Server) Busy() bool { return s.serving.Load() > 0 }

// OnRequest calls f with each later request of a client for objects before it is answered,
// one at a time. An error of f refuses it. f may not call the server.
func (s *Server) OnRequest(f func(Request) error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.review = f
}

// Objects are copies of all objects, sorted by kind, namespace and name.
func (s *Server) Objects() (list []map[string]any) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, at := range s.store.keys(func(key, *unstructured.Unstructured) bool { return true }) {
		list = append(list, withoutManagers(s.store.objects[at]).Object)
	}
	return list
}
