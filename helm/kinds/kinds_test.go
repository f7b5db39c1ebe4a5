package kinds

import (
	"context"
	"encoding/json"
	"errors"
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
	shown  atomic.Bool
	broken atomic.Bool
	lists  atomic.Int64 // requests for the list of groups
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	if a.shown.Load() {
		gv := metav1.GroupVersionForDiscovery{GroupVersion: "example.com/v1", Version: "v1"}
		groups.Groups = []metav1.APIGroup{{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{gv}, PreferredVersion: gv}}
	}
	switch {
	case a.broken.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/version":
		answer(w, version.Info{GitVersion: "v1.36.0", Major: "1", Minor: "36"})
	case r.URL.Path == "/api":
		answer(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}})
	case r.URL.Path == "/apis":
		a.lists.Add(1)
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

// H11: capabilities are the same pointer until a definition changes, and then they are new at once. Modules that start at
// the same time ask once for all of them. Without watches they are trusted for a while.
func TestCapabilities(t *testing.T) {
	api := &fakeAPI{}
	s := api.client(t)
	first, err := s.Capabilities(t.Context())
	if err != nil || first.KubeVersion.Version != "v1.36.0" {
		t.Fatalf("capabilities = %+v, %v", first, err)
	}
	var changed atomic.Bool
	want := func(when string, requests int64, shown bool) {
		t.Helper()
		before := api.lists.Load()
		var group errgroup.Group
		for range 8 {
			group.Go(func() error {
				got, err := s.Capabilities(t.Context())
				if err == nil && (got.APIVersions.Has("example.com/v1/Thing") != shown || !shown && got != first) {
					err = errors.New("other capabilities")
				}
				changed.Store(false)
				return err
			})
		}
		if err := group.Wait(); err != nil || api.lists.Load() != before+requests {
			t.Errorf("%s: %v, %d lists after %d", when, err, api.lists.Load(), before)
		}
	}
	want("without watches", 0, false)
	s.asked = s.asked.Add(-2 * blindAge)
	want("later", 1, false)
	s.Watch(func(context.Context, time.Time) bool { return !changed.Load() })
	s.asked = s.asked.Add(-2 * blindAge)
	want("with watches", 0, false)
	api.shown.Store(true)
	changed.Store(true)
	want("with another kind", 1, true)
	api.broken.Store(true)
	s.Forget()
	if _, err := s.Capabilities(t.Context()); err == nil {
		t.Error("a server that is away is no error")
	}
}

// H11: an unknown kind refreshes discovery, but not more than once a second.
func TestMapping(t *testing.T) {
	api := &fakeAPI{}
	s := api.client(t)
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	if _, err := s.Mapping(gvk); err == nil {
		t.Fatal("an unknown kind is no error")
	}
	api.shown.Store(true)
	requests := api.lists.Load()
	if _, err := s.Mapping(gvk); err == nil || api.lists.Load() != requests {
		t.Errorf("asked again at once: %v", err)
	}
	s.reset = s.reset.Add(-2 * missPause)
	m, err := s.Mapping(gvk)
	if err != nil || m.Resource.Resource != "things" || !Namespaced(m) {
		t.Errorf("mapping = %v, %v", m, err)
	}
}
