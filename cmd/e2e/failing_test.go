package e2e

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// Without its namespace the operator says so, and goes on as soon as there is one.
func TestNamespaceDoesNotExist(t *testing.T) {
	h := newFixture(t, "web")
	namespaces := h.client.CoreV1().Namespaces()
	h.namespace += "-not"
	o := h.start("ADDON_OPERATOR_NAMESPACE=" + h.namespace)
	line := o.expect("ERROR", "will retry", "module=web")
	expectAll(t, line, `namespaces "`+h.namespace+`" not found`)
	if status, _ := get(o.public + "/readyz"); status != http.StatusInternalServerError {
		t.Errorf("/readyz is %d without a namespace", status)
	}
	must(t, second(namespaces.Create(h.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}}, metav1.CreateOptions{})))
	t.Cleanup(func() {
		// The test's own context is cancelled by now, and the cluster goes with the process.
		_ = namespaces.Delete(context.Background(), h.namespace, metav1.DeleteOptions{})
	})
	o.ready()
	h.awaitRevisions("web", "1:deployed")
}

// The operator may be started before its API server: it waits, is alive and not ready.
// Issue 2, "Bad input".
func TestAPIServerIsAwayAtTheStart(t *testing.T) {
	h := newFixture(t, "web")
	port := freePort(t)
	o := h.start("KUBE_SERVER=https://127.0.0.1:" + port)
	line := o.expect("ERROR", "the ConfigMap cannot be read, will retry")
	expectAll(t, line, "127.0.0.1:"+port, "connection refused", "check that the API server is up", "in=5")
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusInternalServerError, "/metrics": http.StatusOK} {
		if status, body := get(o.public + path); status != want {
			t.Errorf("%s answers %d %s, want %d", path, status, body, want)
		}
	}
	newLine(t, "127.0.0.1:"+port, devclustertest.Start(t).RESTConfig().Host)
	o.ready()
	h.awaitRevisions("web", "1:deployed")
}
