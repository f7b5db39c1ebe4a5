package kinds

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// H11: capabilities are asked for again when a definition changes. Modules that start
// at the same time ask once for all of them. Without watches they are trusted for a while.
func TestCapabilities(t *testing.T) {
	api := &aggregator{state: "gone", registered: http.StatusNotFound}
	s := api.server(t)
	first, _, err := s.Capabilities()
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
				got, _, err := s.Capabilities()
				if err == nil && got.APIVersions.Has("metrics.example.com/v1beta1/Thing") != shown {
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
	s.age(2 * blindAge)
	want("later", 1, false)
	s.Watch(func(time.Time) bool { return !changed.Load() }, nil)
	s.age(2 * blindAge)
	want("with watches", 0, false)
	api.become("", http.StatusOK)
	changed.Store(true)
	want("with another kind", 1, true)
	api.become("broken", http.StatusOK)
	s.Forget()
	if _, _, err := s.Capabilities(); err == nil {
		t.Error("a server that is away is no error")
	}
}

// What hooks have asked for a moment ago is good for the first call, unless a definition has changed since.
func TestRecentKinds(t *testing.T) {
	api := &aggregator{state: "gone", registered: http.StatusNotFound}
	lists := []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true}}}}
	for name, c := range map[string]struct {
		at             time.Time
		changed, asked bool
	}{
		"recent":           {at: time.Now()},
		"none":             {asked: true},
		"before a change":  {at: time.Now(), changed: true, asked: true},
		"after a new kind": {at: time.Now(), asked: true},
	} {
		s, before := api.server(t), api.lists.Load()
		s.Watch(func(time.Time) bool { return !c.changed }, func() (time.Time, []*metav1.APIGroup, []*metav1.APIResourceList) {
			return c.at, nil, lists
		})
		if name == "after a new kind" {
			s.Forget()
		}
		if _, _, err := s.Capabilities(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if asked := api.lists.Load() > before; asked != c.asked {
			t.Errorf("%s: the API server is asked: %t", name, asked)
		}
		if _, err := s.Mapping(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}); err != nil && !c.asked {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// H11: an unknown kind refreshes discovery, but not more than once a second.
func TestMapping(t *testing.T) {
	api := &aggregator{state: "gone", registered: http.StatusNotFound}
	s := api.server(t)
	if _, err := s.Mapping(thing); !meta.IsNoMatchError(err) {
		t.Fatalf("an unknown kind: %v", err)
	}
	api.become("", http.StatusOK)
	requests := api.lists.Load()
	if _, err := s.Mapping(thing); err == nil || api.lists.Load() != requests {
		t.Errorf("asked again at once: %v", err)
	}
	s.age(2 * missPause)
	m, err := s.Mapping(thing)
	if err != nil || m.Resource.Resource != "things" || !Namespaced(m) {
		t.Errorf("mapping = %v, %v", m, err)
	}
}
