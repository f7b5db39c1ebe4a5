package modules

import (
	"testing"

	"addon-operator/actors/metrics"
	"addon-operator/actors/shared/sharedtest"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/messages"
	"addon-operator/values"
)

// H6: a chart that renders by chance is counted.
func TestUnstableRenderIsCounted(t *testing.T) {
	section, err := values.NewSection("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := sharedtest.NewProgram(nil)
	m := newModule(p, addons.Module{Name: "a", Key: "a"}, section)
	cause := messages.By(messages.ByChance, "ConfigMap", messages.Cause{})
	m.delayed.tellUnstable(messages.Task{Cause: cause}, helm.Outcome{})
	m.delayed.tellUnstable(messages.Task{Cause: cause}, helm.Outcome{Unstable: true})
	families, err := p.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != metrics.DefaultPrefix+"value_loops_total" {
			continue
		}
		if got := f.GetMetric()[0].GetCounter().GetValue(); got != 1 {
			t.Errorf("%s is %v, want one", f.GetName(), got)
		}
		return
	}
	t.Error("an unstable render is not counted")
}
