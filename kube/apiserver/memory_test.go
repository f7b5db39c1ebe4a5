package apiserver_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"

	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/testkit/devclustertest"
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

// protected starts a server with TLS and a token, and returns the configuration of its admin.
func protected(t *testing.T, s *apiserver.Server) *rest.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, s.Start())
	t.Cleanup(func() { s.Close() })
	must(t, s.WriteKubeconfig(path, "default"))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", info, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	must(t, err)
	return config
}

func TestOnlyTheKubeconfigOpensAProtectedServer(t *testing.T) {
	s := apiserver.New("v1.36.3")
	config := protected(t, s)
	namespaces := func(config *rest.Config) error {
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := namespaces(config); err != nil {
		t.Errorf("with the kubeconfig: %v", err)
	}
	stranger := rest.CopyConfig(config)
	stranger.BearerToken = "guessed"
	if err := namespaces(stranger); !apierrors.IsUnauthorized(err) {
		t.Errorf("with another token: %v", err)
	}
	distrustful := rest.CopyConfig(config)
	distrustful.CAData = nil
	if err := namespaces(distrustful); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without its certificate: %v", err)
	}
	plain, err := http.Get("http" + strings.TrimPrefix(s.URL(), "https") + "/api") //nolint:noctx // a test on loopback
	if err == nil {
		plain.Body.Close()
		if plain.StatusCode == http.StatusOK {
			t.Error("it answers without TLS")
		}
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// With RunWorkloads all kinds with a status are current by the rules of kstatus, also after a change; without, none
// is.
func TestWorkloadsRun(t *testing.T) {
	for _, text := range []string{
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: default}, spec: {replicas: 3}}",
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: default}, spec: {}}",
		"{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, namespace: default}, spec: {}}",
		"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a, namespace: default}, spec: {replicas: 0}}",
		"{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: default}, spec: {}}",
		"{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}, spec: {}}",
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, namespace: default}, spec: {}}",
		"{apiVersion: v1, kind: Service, metadata: {name: a, namespace: default}, spec: {type: LoadBalancer}}",
	} {
		for _, running := range []bool{true, false} {
			var object map[string]any
			must(t, yaml.Unmarshal([]byte(text), &object))
			server := apiserver.New("v1.36.0")
			if running {
				server.RunWorkloads()
			}
			u := &unstructured.Unstructured{Object: object}
			for _, label := range []string{"one", "two"} {
				_ = unstructured.SetNestedField(object, label, "spec", "changed")
				must(t, server.Apply(object))
				now := unstructured.Unstructured{Object: server.Object(u.GetAPIVersion(), u.GetKind(), "default", "a")}
				got, err := status.Compute(&now)
				if err != nil || (got.Status == status.CurrentStatus) != running && !strings.Contains(text, "Job") {
					t.Errorf("%s, running %t: %+v %v, status %v", text, running, got, err, now.Object["status"])
				}
			}
		}
	}
}

// The table of kinds has all that a real API server serves.
func TestTableOfKindsIsTheOneOfAnAPIServer(t *testing.T) {
	text, err := os.ReadFile("kinds.txt")
	must(t, err)
	client, err := discovery.NewDiscoveryClientForConfig(devclustertest.Start(t).RESTConfig())
	must(t, err)
	// Other tests define kinds meanwhile; groups of Kubernetes have no dot, or end like this.
	foreign := func(group string) bool { return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") }
	_, lists, err := client.ServerGroupsAndResources()
	failed, ok := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !ok {
		t.Fatal(err)
	}
	for gv, err := range failed {
		if !foreign(gv.Group) {
			t.Fatal(err)
		}
	}
	for _, list := range lists {
		if group, _, _ := strings.Cut(list.GroupVersion, "/"); foreign(group) {
			continue
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "get") {
				continue
			}
			scope := "cluster"
			if r.Namespaced {
				scope = "namespaced"
			}
			short := cmp.Or(strings.Join(r.ShortNames, ","), "-")
			if line := fmt.Sprintln(list.GroupVersion, r.Kind, r.Name, r.SingularName, short, scope); !strings.Contains("\n"+string(text), "\n"+strings.TrimSpace(line)+" ") {
				t.Errorf("the table lacks %q", line)
			}
		}
	}
}

// A client of the same process needs no connection: its requests are calls.
func ExampleServer() {
	server := apiserver.New("v1.33.0")
	err := server.Apply(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "greeting", "namespace": "team-a"}, // the namespace is created
		"data":     map[string]any{"text": "hello"},
	})
	if err != nil {
		log.Print(err)
		return
	}
	client := kubernetes.NewForConfigOrDie(server.RESTConfig())
	found, err := client.CoreV1().ConfigMaps("team-a").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		log.Print(err)
		return
	}
	for _, cm := range found.Items {
		fmt.Println(cm.Name, cm.Data["text"])
	}
	// Output: greeting hello
}
