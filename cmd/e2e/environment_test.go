package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An installation whose records are ConfigMaps is taken over: its release is found again after
// a restart, and no Secret of Helm appears. What is not served is named in the log. Issue 14.9.
func TestVariablesOfAnExistingInstallation(t *testing.T) {
	h := newFixture(t, "web")
	o := h.start("HELM_DRIVER=configmap", "HELM_MONITOR_KUBE_CLIENT_QPS=5", "ADDON_OPERATOR_LISTENPORT=1").ready()
	for _, want := range [][]string{
		{"WARN environment variable", "HELM_MONITOR_KUBE_CLIENT_QPS", "not needed"},
		{"WARN environment variable", "ADDON_OPERATOR_LISTENPORT", "did you mean ADDON_OPERATOR_LISTEN_PORT?"},
	} {
		if n := o.count(want...); n != 1 {
			t.Errorf("%d log lines with %q, want 1", n, want)
		}
	}
	o.terminate()

	h.write("modules/010-web/values.yaml", "web: {size: large}\n")
	h.start("HELM_DRIVER=configmap").ready()
	h.eventually("the second revision", func() error {
		ofHelm := metav1.ListOptions{LabelSelector: "owner=helm,name=web"}
		maps, err := h.client.CoreV1().ConfigMaps(h.namespace).List(h.ctx, ofHelm)
		if err != nil || len(maps.Items) != 2 || maps.Items[0].Labels["status"] != "superseded" || maps.Items[1].Labels["status"] != "deployed" {
			return fmt.Errorf("records %v, %w; want a superseded and a deployed one", maps.Items, err)
		}
		return nil
	})
	if got := h.revisions("web"); got != "" {
		t.Errorf("revisions in Secrets: %s", got)
	}
}
