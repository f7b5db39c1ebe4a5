package server

import (
	"testing"
	"time"

	"addon-operator/messages/view"
)

// Each module counts once, by the worst that is true of it; the worst class comes first.
func TestHeadline(t *testing.T) {
	failing := []view.FailingTask{{Task: "RunModule", Attempts: 1}}
	ready := func(change func(*moduleEntry)) moduleEntry {
		m := moduleEntry{State: "ready", ModuleStatus: view.ModuleStatus{Phase: view.Ready, Enabled: true}}
		if change != nil {
			change(&m)
		}
		return m
	}
	off := moduleEntry{State: "disabled", ModuleStatus: view.ModuleStatus{Phase: view.Disabled}}
	broken := off
	broken.Problems = []string{"values.yaml: not YAML"}
	for want, c := range map[string]struct {
		list   []moduleEntry
		global view.GlobalStatus
	}{
		"no modules":       {},
		"1 ready, 1 off":   {list: []moduleEntry{off, ready(nil)}},
		"1 with a problem": {list: []moduleEntry{broken}},
		"global hooks failing, 2 failing, 1 unhealthy, 1 waiting, 1 in progress, 1 with a problem, 1 ready": {
			global: view.GlobalStatus{Failing: failing},
			list: []moduleEntry{
				ready(nil),
				ready(func(m *moduleEntry) { m.Problems = []string{"changed on disk since it was loaded"} }),
				ready(func(m *moduleEntry) { m.State = view.Progressing }),
				ready(func(m *moduleEntry) {
					m.Waiting = &view.Wait{Module: "dns", Since: time.Now()}
					m.Problems = []string{"x"}
				}),
				ready(func(m *moduleEntry) { m.State = view.Unhealthy }),
				ready(func(m *moduleEntry) { m.Failing, m.State = failing, view.Unhealthy }),
				ready(func(m *moduleEntry) { m.Hanging = []view.RunningHook{{Module: "a"}} }),
			},
		},
	} {
		if got := headline(c.list, c.global); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
