package server_test

import (
	"fmt"
	"testing"
	"time"

	"addon-operator/messages/view"
	"addon-operator/server"
	"addon-operator/supervisor"
)

// What has succeeded since the reload began is done; what waits for its next attempt does not run.
func TestProgressOf(t *testing.T) {
	began := time.Now()
	now := began.Add(63 * time.Second)
	converge := view.ConvergeStatus{Phase: view.ConvergeReloading, Began: began, Enabled: []string{"a", "b", "c"}}
	statuses := map[string]supervisor.Status{
		"operator/module/a":           view.ModuleStatus{Order: 1, Succeeded: began.Add(time.Second)},
		"operator/module/b":           view.ModuleStatus{Order: 2, Succeeded: began.Add(-time.Second)}, // in the reload before
		"operator/module/c":           view.ModuleStatus{Order: 3, Failing: []view.FailingTask{{Task: "RunModule"}}},
		"operator/module/off":         view.ModuleStatus{Order: 4, Succeeded: began.Add(time.Second)},
		"operator/module/b/run/1":     supervisor.RunStatus{Step: "helm"},
		"operator/module/c/run/2":     supervisor.RunStatus{RetryAt: now, Error: "no"},
		"operator/global-hooks/run/3": supervisor.RunStatus{Step: "g.sh: schedule"},
	}
	for _, c := range []struct {
		change func()
		want   string
	}{
		{func() {}, "converging: 1/3 modules ready, 1 failing, 1m3s | global-hooks: g.sh: schedule (and 1 more)"},
		{func() { delete(statuses, "operator/global-hooks/run/3") }, "converging: 1/3 modules ready, 1 failing, 1m3s | b: helm"},
		{func() {
			for i := range 20 {
				statuses[fmt.Sprintf("operator/module/b/run/x%d", i)] = supervisor.RunStatus{Step: "helm"}
			}
		}, "converging: 1/3 modules ready, 1 failing, 1m3s | b: helm (and 20 more)"},
		{func() {
			clear(statuses)
			converge.Enabled = []string{"run"}
			statuses["operator/module/run"] = view.ModuleStatus{Order: 1}
			statuses["operator/module/run/run/1"] = supervisor.RunStatus{Step: "helm"}
		}, "converging: 0/1 module ready, 1m3s | run: helm"},
		{func() { clear(statuses); converge.Enabled = nil }, "starting, 1m3s"},
		{func() { converge.Waits = "the ConfigMap cannot be read" }, "starting: the ConfigMap cannot be read"},
		{func() { converge = view.ConvergeStatus{} }, ""},
		{func() { converge = view.ConvergeStatus{Phase: view.ConvergeIdle, Ready: true, Began: began} }, ""},
	} {
		c.change()
		if got := server.ProgressOf(statuses, converge, now).String(); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
