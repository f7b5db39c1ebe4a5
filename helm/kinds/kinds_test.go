package kinds

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// fakeAPI is an API server with one group, which appears when shown is set.
type fakeAPI struct {
	etag   string // format of the ETag; empty: none
	shown  atomic.Bool
	broken atomic.Bool
	full   atomic.Int64 // requests for the list of groups that were answered in full
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	etag := a.etag
	if a.shown.Load() {
		gv := metav1.GroupVersionForDiscovery{GroupVersion: "example.com/v1", Version: "v1"}
		groups.Groups = []metav1.APIGroup{{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{gv}, PreferredVersion: gv}}
		etag += "shown"
	}
	switch {
	case a.broken.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/version":
		answer(w, version.Info{GitVersion: "v1.36.0", Major: "1", Minor: "36"})
	case r.URL.Path == "/api":
		answer(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}})
	case r.URL.Path == "/apis" && a.etag != "" && r.Header.Get("If-None-Match") == etag:
		w.WriteHeader(http.StatusNotModified)
	case r.URL.Path == "/apis":
		a.full.Add(1)
		if a.etag != "" {
			w.Header().Set("ETag", etag)
		}
		answer(w, groups)
	case r.URL.Path == "/apis/example.com/v1":
		answer(w, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "example.com/v1",
			APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing", Namespaced: true}},
		})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func (a *fakeAPI) client(t *testing.T) *Server {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	s, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// H11: capabilities are the same pointer until the list of APIs changes, and
// then they are new at once.
func TestCapabilities(t *testing.T) {
	api := &fakeAPI{etag: "etag"}
	s := api.client(t)
	first, err := s.Capabilities(t.Context())
	if err != nil || first.KubeVersion.Version != "v1.36.0" {
		t.Fatalf("capabilities = %+v, %v", first, err)
	}
	if _, err := s.Capabilities(t.Context()); err != nil { // the ETag is known from now on
		t.Fatal(err)
	}
	requests := api.full.Load()
	if again, err := s.Capabilities(t.Context()); err != nil || again != first || api.full.Load() != requests {
		t.Errorf("again: %v, %d full answers after %d", err, api.full.Load(), requests)
	}
	api.shown.Store(true)
	second, err := s.Capabilities(t.Context())
	if err != nil || !second.APIVersions.Has("example.com/v1/Thing") {
		t.Errorf("the new kind is not seen: %v, %v", second.APIVersions, err)
	}
	api.broken.Store(true)
	if _, err := s.Capabilities(t.Context()); err == nil {
		t.Error("a server that is away is no error")
	}
}

// Modules that start at the same time ask once for all of them.
func TestCapabilitiesAreAskedForOnce(t *testing.T) {
	api := &fakeAPI{etag: "etag"}
	s := api.client(t)
	s.Watch(func(_ context.Context, since time.Time) bool { return !since.IsZero() })
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			_, err := s.Capabilities(t.Context())
			return err
		})
	}
	if err := group.Wait(); err != nil || api.full.Load() != 1 {
		t.Errorf("%d full answers, %v", api.full.Load(), err)
	}
}

// Without an ETag, discovery is trusted for a while.
func TestCapabilitiesWithoutETag(t *testing.T) {
	api := &fakeAPI{}
	s := api.client(t)
	first, err := s.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Capabilities(t.Context()); err != nil || again != first {
		t.Errorf("again: %v, %v", again, err)
	}
	api.shown.Store(true)
	s.loaded = s.loaded.Add(-2 * blindAge)
	if second, err := s.Capabilities(t.Context()); err != nil || !second.APIVersions.Has("example.com/v1/Thing") {
		t.Errorf("the new kind is not seen: %v", err)
	}
}

// H11: an unknown kind refreshes discovery, but not more than once a second.
func TestMapping(t *testing.T) {
	api := &fakeAPI{etag: "etag"}
	s := api.client(t)
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	if _, err := s.Mapping(gvk); err == nil {
		t.Fatal("an unknown kind is no error")
	}
	api.shown.Store(true)
	requests := api.full.Load()
	if _, err := s.Mapping(gvk); err == nil || api.full.Load() != requests {
		t.Errorf("asked again at once: %v", err)
	}
	s.reset = s.reset.Add(-2 * missPause)
	m, err := s.Mapping(gvk)
	if err != nil || m.Resource.Resource != "things" || !Namespaced(m) {
		t.Errorf("mapping = %v, %v", m, err)
	}
}
