package apiserver_test

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"addon-operator/kube/apiserver"
)

// protected starts a server with TLS and a token, and returns the configuration of its admin.
func protected(t *testing.T, s *apiserver.Server) *rest.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, s.Protect())
	must(t, s.Start(""))
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

func TestSavedObjectsComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "objects.json")
	first := apiserver.New("v1.36.3")
	for _, object := range []map[string]any{
		{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "boats.example.com"},
			"spec": map[string]any{
				"group": "example.com", "scope": "Namespaced", "names": map[string]any{"kind": "Boat", "plural": "boats", "singular": "boat"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
			},
		},
		{"apiVersion": "example.com/v1", "kind": "Boat", "metadata": map[string]any{"name": "b", "namespace": "sea"}, "spec": map[string]any{"masts": int64(3)}},
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "sea"}, "data": map[string]any{"k": "v"}},
	} {
		must(t, first.Apply(object))
	}
	must(t, first.Save(path))
	second := apiserver.New("v1.36.3")
	must(t, second.Load(path))
	if want, got := first.Objects(), second.Objects(); !reflect.DeepEqual(want, got) {
		t.Errorf("objects %v, want %v", got, want)
	}
	if err := second.Apply(map[string]any{"apiVersion": "example.com/v1", "kind": "Boat", "metadata": map[string]any{"name": "b", "namespace": "sea"}, "spec": map[string]any{"masts": int64(4)}}); err != nil {
		t.Errorf("the kind of a loaded definition: %v", err)
	}
	before, after := version(first.Object("example.com/v1", "Boat", "sea", "b")), version(second.Object("example.com/v1", "Boat", "sea", "b"))
	if len(after) < len(before) || len(after) == len(before) && after <= before {
		t.Errorf("resource version %s after %s: it must grow across a restart", after, before)
	}
}

func version(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	text, _ := metadata["resourceVersion"].(string)
	return text
}

func TestBrokenSaveIsRefused(t *testing.T) {
	for situation, text := range map[string]string{"no JSON": "{", "no kind": `{"objects":[{"resource":"pods","object":{}}]}`, "null": `{"objects":[{"resource":"pods","object":null}]}`} {
		path := filepath.Join(t.TempDir(), "objects.json")
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if err := apiserver.New("v1.36.3").Load(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "delete") {
			t.Errorf("%s: %v; want an error that names the file and the way out", situation, err)
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
