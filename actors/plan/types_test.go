package plan_test

import (
	"maps"
	"strings"
	"testing"

	"addon-operator/actors/plan"
	"addon-operator/helm"
)

// What counts as a change decides the exit code of the command.
func TestPlanCounts(t *testing.T) {
	p := plan.Plan{Modules: []plan.Module{
		{Module: "a", Step: plan.StepRun, Release: "skipped"}, {Module: "b", Step: plan.StepRun}, {Module: "c", Step: plan.StepKeep},
	}}
	if p.Count(); p.Changes() || !maps.Equal(p.Summary, map[string]int{"unchanged": 2, "keep": 1}) {
		t.Errorf("nothing to do: changes %v, %+v", p.Changes(), p.Summary)
	}
	p.Modules = append(p.Modules,
		plan.Module{Module: "d", Step: plan.StepRun, Release: "upgraded", Objects: []plan.Object{{Verb: "create"}, {Verb: "change"}, {Verb: "delete"}}},
		plan.Module{Module: "e", Step: plan.StepStart}, plan.Module{Module: "p", Step: plan.StepStop},
		plan.Module{Module: "g", Step: plan.StepPurge}, plan.Module{Module: "h", Step: plan.StepRun, Error: "no"},
		plan.Module{Module: "i", Step: plan.StepRun, Unknown: "values"},
	)
	want := map[string]int{
		"start": 1, "upgrade": 1, "stop": 1, "purge": 1, "keep": 1, "unchanged": 2, "failing": 1, "unknown": 1,
		"objectsToCreate": 1, "objectsToChange": 1, "objectsToDelete": 1,
	}
	if p.Count(); !p.Changes() || !maps.Equal(p.Summary, want) {
		t.Errorf("changes %v, %+v, want %+v", p.Changes(), p.Summary, want)
	}
	p.Modules = p.Modules[len(p.Modules)-1:]
	if p.Count(); !p.Changes() || !maps.Equal(p.Summary, map[string]int{"unknown": 1}) {
		t.Errorf("what cannot be predicted is no promise that nothing happens: %+v", p.Summary)
	}
}

// P1: the command that allows an upgrade is not cut off an Event, however many objects there are and however long
// their names.
func TestHeldUpgrade(t *testing.T) {
	hold := &helm.Hold{Why: "W", Objects: []helm.Object{{Name: "a"}, {Name: "b"}}}
	if got, want := plan.HeldUpgrade(hold, "C"), "the upgrade is held back, because W:  a,  b; to allow it: C"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	long := helm.Object{Name: strings.Repeat("n", 300)}
	got := plan.HeldUpgrade(&helm.Hold{Objects: []helm.Object{long, long, long}, Why: "W"}, "C")
	if !strings.HasSuffix(got, " and 2 more; to allow it: C") || len(got) > 500 {
		t.Errorf("got %q", got)
	}
}
