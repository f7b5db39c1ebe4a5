package view

import (
	"testing"
	"time"

	"addon-operator/values"
)

// Each module counts once, by the worst that is true of it; the worst class comes first.
func TestHeadline(t *testing.T) {
	failing := []FailingTask{{Task: "RunModule", Attempts: 1}}
	ready := func(change func(*Module)) Module {
		m := Module{State: "ready", ModuleStatus: ModuleStatus{Phase: Ready, Enabled: true}}
		if change != nil {
			change(&m)
		}
		return m
	}
	off := Module{State: "disabled", ModuleStatus: ModuleStatus{Phase: Disabled}}
	broken := off
	broken.Problems = []string{"values.yaml: not YAML"}
	for want, c := range map[string]struct {
		list   []Module
		global GlobalStatus
	}{
		"no modules":                {},
		"1 with a problem, 1 ready": {list: []Module{ready(nil), ready(func(m *Module) { m.State, m.Held, m.Problems = Held, "H", []string{"H"} })}},
		"1 ready, 1 off":            {list: []Module{off, ready(nil)}},
		"1 with a problem":          {list: []Module{broken}},
		"global hooks failing, 2 failing, 1 unhealthy, 1 waiting, 1 in progress, 1 with a problem, 1 suspended, 1 ready": {
			global: GlobalStatus{Failing: failing},
			list: []Module{
				ready(nil),
				ready(func(m *Module) { m.Problems = []string{"changed on disk since it was loaded"} }),
				ready(func(m *Module) { m.State = Progressing }),
				ready(func(m *Module) { m.State, m.Maintenance = string(Suspended), values.Suspended }),
				ready(func(m *Module) {
					m.Waiting = &Wait{Module: "dns", Since: time.Now()}
					m.Problems = []string{"x"}
				}),
				ready(func(m *Module) { m.State = Unhealthy }),
				ready(func(m *Module) { m.Failing, m.State = failing, Unhealthy }),
				ready(func(m *Module) { m.Hanging = []RunningHook{{Module: "a"}} }),
			},
		},
	} {
		if got := Headline(c.list, c.global); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
