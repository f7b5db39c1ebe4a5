package apiserver_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"addon-operator/kube"
	"addon-operator/kube/apiserver"
)

// boats is served by a server that says what another one does.
func boats() kube.Discovery {
	list := &metav1.APIResourceList{GroupVersion: "sea.example.org/v1", APIResources: []metav1.APIResource{
		{Name: "boats", SingularName: "boat", Kind: "Boat", Namespaced: true}, {Name: "boats/status", Kind: "Boat", Namespaced: true},
	}}
	return kube.Discovery{
		Version: apiversion.Info{Major: "1", Minor: "36+", GitVersion: "v1.36.2-x"}, Kinds: []*metav1.APIResourceList{list, list},
		Away: []schema.GroupVersion{{Group: "side.example.org", Version: "v1"}},
	}
}

// What a server says about itself can be given to another one, also that a part of it does not answer.
func TestNewOfSaysTheSame(t *testing.T) {
	client, err := kube.Connect(kube.Options{Config: apiserver.NewOf(boats()).RESTConfig()})
	must(t, err)
	got, err := client.Discover(t.Context())
	must(t, err)
	if want := boats(); got.Version != want.Version || !slices.Equal(got.Away, want.Away) || len(got.Kinds) != 2 || len(got.Kinds[1].APIResources) != 1 { // the first is that of the core, which every server has
		t.Errorf("got %+v, want %+v", got, want)
	}
	if resource, namespaced, err := client.FindKind(t.Context(), "", "BOAT"); err != nil || !namespaced || resource.Resource != "boats" {
		t.Errorf("boat is %v, %t, %v", resource, namespaced, err)
	}
	api := discovery.NewDiscoveryClientForConfigOrDie(apiserver.NewOf(boats()).RESTConfig())
	if _, err := api.ServerResourcesForGroupVersion("side.example.org/v1"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the part that is away: %v", err)
	}
}

// Requests for objects are shown before they are answered, and can be refused.
func TestOnRequest(t *testing.T) {
	s := apiserver.New("v1.36.0")
	var seen []string
	s.OnRequest(func(r apiserver.Request) error {
		seen = append(seen, strings.Join([]string{r.Verb, r.Resource, r.Namespace, r.Name}, " "))
		if r.Verb == "create" {
			return apierrors.NewForbidden(r.GroupResource(), r.Name, errors.New("no "+r.Object["kind"].(string)))
		}
		return nil
	})
	api := dynamic.NewForConfigOrDie(s.RESTConfig()).Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("default")
	if _, err := api.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := api.Get(t.Context(), "x", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "x"}}}
	if _, err := api.Create(t.Context(), made, metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no Secret") {
		t.Errorf("a refused create: %v", err)
	}
	if s.Object("v1", "Secret", "default", "x") != nil {
		t.Error("what is refused is stored")
	}
	if want := []string{"list secrets default ", "get secrets default x", "create secrets default "}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}

// Whatever a client asks for, it gets an answer.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"/", "/api/v1/namespaces/a/pods", "/apis///", "/api/v1/namespaces//", "/api/v1/namespaces/a/pods/b/log", "/apis/apps/v1", "/openapi/v3/x"} {
		f.Add(path)
	}
	s := apiserver.New("v1.36.0")
	f.Fuzz(func(t *testing.T, path string) {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.URL.Path = path
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Body.Len() == 0 {
			t.Errorf("%q: no answer", path)
		}
	})
}
