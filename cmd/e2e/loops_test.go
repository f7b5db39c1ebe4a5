package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// awaitLoop waits until a turn of a loop is slowed down.
func (o *operator) awaitLoop() {
	o.fixture.t.Helper()
	o.fixture.eventually("a turn of a loop that is slowed down", func() error {
		if o.metricNow("addon_operator_value_loops_total") == "" {
			return errNotYet
		}
		return nil
	})
}

// A chart renders a random value, and a hook of the module writes into values what it sees of it:
// each revision leads to the next one. The loop runs in slow motion, the log says where it
// begins, and what a person changes meanwhile gets through. G14, H6, K10.
func TestLoopThroughAChart(t *testing.T) {
	h := newFixture(t, "loop_chart")
	h.setConfig(map[string]string{"chanceEnabled": "true"})
	o := h.start().ready()
	o.awaitLoop()
	expectAll(t, o.expect("WARN", "unstable"), "chance/templates/cm.yaml", "line 7", "randAlphaNum")
	o.expect("WARN", "hooks run in a loop", "Helm", "chance")
	h.eventually("the Event", func() error { return h.hasEvent("ValueLoop", "Warning") })
	h.eventually("the Event", func() error { return h.hasEvent("UnstableRender", "Warning") })

	h.setConfig(map[string]string{"chance": "note: configured"})
	h.awaitConfigMap("chance", "note", "configured")
	h.kubectl("patch", "configmap", "chance", "-n", h.namespace, "--type=merge", "-p", `{"data":{"person":"edited"}}`)
	h.eventually("the edit in the values", func() error {
		if got := h.configMap("chance")["seen"]; got != "edited" {
			return fmt.Errorf("seen is %q", got)
		}
		return nil
	})
	secrets, err := h.client.CoreV1().Secrets(h.namespace).List(h.ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=chance"})
	if err != nil || len(secrets.Items) == 0 {
		t.Fatalf("%d revisions, %v", len(secrets.Items), err)
	}
	const most = 20                   // 18 in a second before
	for _, s := range secrets.Items { // an upgrade may be under way
		if n, _ := strconv.Atoi(s.Labels["version"]); n > most {
			t.Errorf("revision %d, want at most %d", n, most)
		}
	}
	if n := o.count("WARN", "unstable"); n > 1 {
		t.Errorf("the unstable render is reported %d times", n)
	}
}

// A hook writes with kubectl into the object that it watches: each run leads to the next one. G10, K10.
func TestLoopThroughKubectl(t *testing.T) {
	h := newFixture(t, "loop_kubectl")
	h.setConfig(map[string]string{"echoEnabled": "true"})
	h.createConfigMap("watched", "watched", nil)
	o := h.start().ready()
	o.awaitLoop()
	o.expect("WARN", "hooks run in a loop", "010-echo/hooks/echo.sh", "watched")
	h.eventually("the Event", func() error { return h.hasEvent("ValueLoop", "Warning") })
	h.kubectl("patch", "configmap", "watched", "-n", h.namespace, "--type=merge", "-p", `{"data":{"person":"edited"}}`)
	h.eventually("the edit", func() error {
		if !strings.Contains(h.read("out/runs"), "edited") {
			return errNotYet
		}
		return nil
	})
	const most = 15 // four in a second before
	if runs := h.lines("runs"); len(runs) > most {
		t.Errorf("%d runs, want at most %d", len(runs), most)
	}
}
