package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// I9: main lives on when a module is disabled, but its series of hooks of the module vanish.
func TestSeriesOfSharedQueuesForgetAModule(t *testing.T) {
	m := New("x_")
	for module, hook := range map[string]string{"gone": "010-gone/hooks/a", "stays": "020-stays/hooks/b"} {
		m.Queues.TaskStarted(messages.Task{Owner: module, Queue: messages.MainQueue, Work: messages.RunHook{Hook: hook, Triggers: make([]messages.Trigger, 2)}})
		m.Queues.Overflowed(messages.MainQueue, hook)
	}
	m.ForgetModule("gone", []hooks.Hook{{File: hooks.File{Name: "010-gone/hooks/a"}}})
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	stay := 0
	for _, f := range families {
		for _, series := range f.GetMetric() {
			if text := series.String(); strings.Contains(text, "gone") {
				t.Errorf("%s still has %s", f.GetName(), text)
			} else if strings.Contains(text, "stays") {
				stay++
			}
		}
	}
	if stay != 3 { // waiting, compactions, overflows
		t.Errorf("%d series of the other module, want 3", stay)
	}
}

// P8: when the file of a hook is gone, its series vanish, and those of the other hooks of its module stay.
func TestSeriesOfAHookThatIsGoneVanish(t *testing.T) {
	m := New("x_")
	for _, hook := range []string{"010-m/hooks/gone", "010-m/hooks/stays"} {
		m.Hooks.Loaded("m", []hooks.Hook{{File: hooks.File{Name: hook}, Config: &hooks.Config{}}})
		m.Hooks.Ended("m", hook, "b", messages.Task{Owner: "m", Queue: messages.MainQueue}, hooks.Usage{}, nil)
		m.Reports.Add("m", hook, []hooks.Metric{{Name: "g", Action: hooks.ActionSet}})
	}
	m.ForgetHook("m", "010-m/hooks/gone")
	stay := 0
	for _, registry := range []*prometheus.Registry{m.Registry, m.HookRegistry} {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, series := range f.GetMetric() {
				if text := series.String(); strings.Contains(text, "gone") {
					t.Errorf("%s still has %s", f.GetName(), text)
				} else if strings.Contains(text, "stays") {
					stay++
				}
			}
		}
	}
	if stay != 6 { // bindings, success, three durations, its own
		t.Errorf("%d series of the other hook, want 6", stay)
	}
}
