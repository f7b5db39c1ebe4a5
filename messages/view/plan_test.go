package view_test

import (
	"testing"

	"addon-operator/messages/view"
)

// What counts as a change decides the exit code of the command.
func TestPlanCounts(t *testing.T) {
	p := view.Plan{Modules: []view.ModulePlan{
		{Module: "a", Step: view.StepRun, Release: "skipped"}, {Module: "b", Step: view.StepRun}, {Module: "c", Step: view.StepKeep},
	}}
	if p.Count(); p.Changes() || p.Summary != (view.PlanSummary{Unchanged: 2, Keep: 1}) {
		t.Errorf("nothing to do: changes %v, %+v", p.Changes(), p.Summary)
	}
	p.Modules = append(p.Modules,
		view.ModulePlan{Module: "d", Step: view.StepRun, Release: "upgraded", Objects: []view.ObjectPlan{{Verb: "create"}, {Verb: "change"}, {Verb: "delete"}}},
		view.ModulePlan{Module: "e", Step: view.StepStart}, view.ModulePlan{Module: "p", Step: view.StepStop},
		view.ModulePlan{Module: "g", Step: view.StepPurge}, view.ModulePlan{Module: "h", Step: view.StepRun, Error: "no"},
		view.ModulePlan{Module: "i", Step: view.StepRun, Unknown: "values"},
	)
	want := view.PlanSummary{Start: 1, Upgrade: 1, Stop: 1, Purge: 1, Keep: 1, Unchanged: 2, Failing: 1, Unknown: 1, Create: 1, Change: 1, Delete: 1}
	if p.Count(); !p.Changes() || p.Summary != want {
		t.Errorf("changes %v, %+v, want %+v", p.Changes(), p.Summary, want)
	}
	p.Modules = p.Modules[len(p.Modules)-1:]
	if p.Count(); !p.Changes() || p.Summary != (view.PlanSummary{Unknown: 1}) {
		t.Errorf("what cannot be predicted is no promise that nothing happens: %+v", p.Summary)
	}
}
