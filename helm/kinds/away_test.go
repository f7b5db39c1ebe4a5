package kinds

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// aggregator is an API server that lists all kinds at once. Besides its own kinds it has those of a group with a
// server of its own.
type aggregator struct {
	lists      atomic.Int64 // requests for the list of groups
	mu         sync.Mutex
	state      string // of the group: "", "away", "unlisted", "empty", "gone"; or "broken", of the server
	registered int    // status of the APIService
}

const otherGroup, otherVersion = "metrics.example.com", "v1beta1"

func (a *aggregator) become(state string, registered int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state, a.registered = state, registered
}

func (a *aggregator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch path := r.URL.Path; {
	case a.state == "broken":
		w.WriteHeader(http.StatusServiceUnavailable)
	case path == "/version":
		_ = json.NewEncoder(w).Encode(version.Info{GitVersion: "v1.36.0", Major: "1", Minor: "36"})
	case path == "/api" || path == "/apis":
		if path == "/apis" {
			a.lists.Add(1)
		}
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		_ = json.NewEncoder(w).Encode(a.all(path))
	case strings.HasPrefix(path, "/apis/apiregistration.k8s.io/v1/apiservices/"):
		w.WriteHeader(a.registered)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (a *aggregator) all(path string) apidiscovery.APIGroupDiscoveryList {
	list := apidiscovery.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}}
	if path == "/api" {
		return list
	}
	add := func(group, v, name, kind string) *apidiscovery.APIVersionDiscovery {
		list.Items = append(list.Items, apidiscovery.APIGroupDiscovery{
			ObjectMeta: metav1.ObjectMeta{Name: group},
			Versions: []apidiscovery.APIVersionDiscovery{{
				Version: v, Freshness: apidiscovery.DiscoveryFreshnessCurrent,
				Resources: []apidiscovery.APIResourceDiscovery{{
					Resource: name, Scope: apidiscovery.ScopeNamespace, Verbs: []string{"get"},
					ResponseKind: &metav1.GroupVersionKind{Group: group, Version: v, Kind: kind},
				}},
			}},
		})
		return &list.Items[len(list.Items)-1].Versions[0]
	}
	add("apps", "v1", "deployments", "Deployment")
	if a.state == "unlisted" || a.state == "gone" {
		return list
	}
	other := add(otherGroup, otherVersion, "things", "Thing")
	if a.state != "" {
		other.Resources = nil
	}
	if a.state == "away" {
		other.Freshness = apidiscovery.DiscoveryFreshnessStale
	}
	return list
}

func (a *aggregator) server(t *testing.T) *Server {
	t.Helper()
	web := httptest.NewServer(a)
	t.Cleanup(web.Close)
	s, err := New(&rest.Config{Host: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// age makes the last answer older.
func (s *Server) age(by time.Duration) {
	older := *s.last.Load()
	older.at = older.at.Add(-by)
	s.last.Store(&older)
}

var thing = schema.GroupVersionKind{Group: otherGroup, Version: otherVersion, Kind: "Thing"} //nolint:gochecknoglobals // a constant

// seen is what a server knows of the kind after it has asked again.
func seen(t *testing.T, s *Server) string {
	t.Helper()
	s.Forget()
	c, away, err := s.Capabilities()
	if err != nil {
		t.Fatal(err)
	}
	s.age(2 * missPause)
	_, err = s.Mapping(thing)
	var unknown *AwayError
	words := []string{}
	switch {
	case err == nil:
		words = append(words, "mapped")
	case meta.IsNoMatchError(err):
		words = append(words, "gone")
	case errors.As(err, &unknown) && strings.Contains(err.Error(), "v1beta1.metrics.example.com"):
		words = append(words, "unknown")
	default:
		words = append(words, err.Error())
	}
	if c.APIVersions.Has("metrics.example.com/v1beta1") {
		words = append(words, "version")
	}
	if c.APIVersions.Has("metrics.example.com/v1beta1/Thing") {
		words = append(words, "kind")
	}
	if !c.APIVersions.Has("apps/v1/Deployment") {
		words = append(words, "NO APPS")
	}
	if s.Away() {
		words = append(words, "away")
	}
	if s.Away() != (len(away) == 1) {
		words = append(words, "CAPABILITIES OF ANOTHER ANSWER")
	}
	return strings.Join(words, " ")
}

// P13: a kind whose API cannot be asked is unknown. It is gone when its API is registered no more.
func TestAway(t *testing.T) {
	a := &aggregator{registered: http.StatusOK}
	s := a.server(t)
	for _, step := range []struct {
		state      string
		registered int
		want       string
	}{
		{"", 200, "mapped version kind"},
		{"away", 200, "unknown away"},
		{"", 200, "mapped version kind"},
		{"unlisted", 200, "unknown away"},
		{"unlisted", 500, "unknown away"},
		{"empty", 200, "unknown version away"},
		{"", 200, "mapped version kind"},
		{"gone", 404, "gone"},
		{"", 200, "mapped version kind"},
		{"gone", 403, "gone"},
	} {
		a.become(step.state, step.registered)
		if got := seen(t, s); got != step.want {
			t.Errorf("%q with APIService %d: %s, want %s", step.state, step.registered, got, step.want)
		}
	}
	a.become("away", http.StatusForbidden)
	if got := seen(t, a.server(t)); got != "unknown away" {
		t.Errorf("started while it is away: %s", got)
	}
	a.become("unlisted", http.StatusOK)
	if got := seen(t, a.server(t)); got != "unknown" {
		t.Errorf("started while it is not listed: %s", got)
	}
}

// Capabilities that are not known well enough say what a template has asked about. P13.2.
func TestAskedCapabilities(t *testing.T) {
	known := &chartutil.Capabilities{APIVersions: chartutil.VersionSet{"v1", "apps/v1", "metrics.example.com/v1beta1"}}
	for text, want := range map[string]string{
		`{{ .APIVersions.Has "apps/v1" }} {{ .APIVersions.Has "batch/v1/Job" }}`:                       "true false",
		`{{ .APIVersions.Has "metrics.example.com/v1beta1" }}`:                                         "true",
		`{{ .APIVersions.Has "metrics.example.com/v1beta1/Thing" }}`:                                   "false asked",
		`{{ $v := .APIVersions }}{{ $v.Has "v1" }} {{ $v.Has "v2" }}`:                                  "true false",
		`{{ range .APIVersions }}{{ . }},{{ end }}`:                                                    "v1,apps/v1,metrics.example.com/v1beta1, asked",
		`{{ if eq (len .APIVersions) 3 }}{{ index .APIVersions 0 }}{{ end }} {{ .KubeVersion.Major }}`: "v1  asked",
	} {
		a := NewAsked(known)
		var out strings.Builder
		if err := template.Must(template.New("").Parse(text)).Execute(&out, a); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if a.About(thing.GroupVersion()) {
			out.WriteString(" asked")
		}
		if out.String() != want {
			t.Errorf("%s: %q, want %q", text, out.String(), want)
		}
	}
}
