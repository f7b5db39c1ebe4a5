package faultproxy_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"addon-operator/testkit/faultproxy"
)

// loseAnswer creates a ConfigMap whose answer gets lost: the client sees an error, the API server
// has the object.
func loseAnswer(t *testing.T, config *rest.Config) (lost []string, err error) {
	t.Helper()
	proxy := faultproxy.New(t, config, 1)
	proxy.OnWrite(func(w faultproxy.Write) (drop bool) {
		if w.Done {
			lost = append(lost, w.Effect)
		}
		return w.Done
	})
	disturbed, err := clientcmd.BuildConfigFromFlags("", proxy.Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	disturbed.Timeout = time.Minute
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}}
	_, err = kubernetes.NewForConfigOrDie(disturbed).CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{})
	return lost, err
}

// A test takes the answer of each write away from its client.
func ExampleProxy_OnWrite() {
	_ = func(t *testing.T) { // a test
		server := &rest.Config{Host: "https://…"} // usually devclustertest.Start(t).RESTConfig()
		if _, err := loseAnswer(t, server); err == nil {
			t.Error("the client knows the answer")
		}
	}
}

// What the example shows is true.
func TestExample(t *testing.T) {
	t.Parallel()
	requests := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Method + " " + r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "default"}}`))
	}))
	t.Cleanup(server.Close)
	lost, err := loseAnswer(t, &rest.Config{Host: server.URL})
	if err == nil || len(lost) != 1 || lost[0] != "POST configmaps" {
		t.Errorf("lost %q, error %v", lost, err)
	}
	if got := <-requests; got != "POST /api/v1/namespaces/default/configmaps" {
		t.Errorf("the server got %s", got)
	}
}
