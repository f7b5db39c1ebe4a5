package kube

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/testkit/devclustertest"
)

// A replica that may not read the Lease stands by, and says why. L1.
func TestForbiddenLease(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status := apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "leader", nil).Status()
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Code))
		_ = json.NewEncoder(w).Encode(status) // the client has gone
	}))
	defer api.Close()
	fence := NewFence()
	client, err := Connect(Options{Kubeconfig: devclustertest.Start(t).Kubeconfig(), Server: api.URL, Log: testLog(t), Fence: fence})
	must(t, err)
	lease, err := client.NewLease(hasty("default", "nobody"))
	must(t, err)
	lease.Compete(t.Context()) // until the test ends
	t.Cleanup(func() { fence.shut(ErrReleased); <-lease.stopped })
	eventually(t, "the problem", func() bool {
		return strings.Contains(lease.Status().Problem, `leases.coordination.k8s.io "leader" is forbidden`)
	})
}
