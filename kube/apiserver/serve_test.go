package apiserver_test

import (
	"net/http"
	"os"
	"path/filepath"
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
