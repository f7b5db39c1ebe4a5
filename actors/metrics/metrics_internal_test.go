package metrics

import (
	"strings"
	"testing"

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
