package messages_test

import (
	"testing"

	"addon-operator/messages"
)

// What counts as a change decides the exit code of the command.
func TestPlanCounts(t *testing.T) {
	p := messages.Plan{Modules: []messages.ModulePlan{
		{Module: "a", Step: messages.StepRun, Release: "skipped"}, {Module: "b", Step: messages.StepRun}, {Module: "c", Step: messages.StepKeep},
	}}
	if p.Count(); p.Changes() || p.Summary != (messages.PlanSummary{Unchanged: 2, Keep: 1}) {
		t.Errorf("nothing to do: changes %v, %+v", p.Changes(), p.Summary)
	}
	p.Modules = append(p.Modules,
		messages.ModulePlan{Module: "d", Step: messages.StepRun, Release: "upgraded", Objects: []messages.ObjectPlan{{Verb: "create"}, {Verb: "change"}, {Verb: "delete"}}},
		messages.ModulePlan{Module: "e", Step: messages.StepStart}, messages.ModulePlan{Module: "p", Step: messages.StepStop},
		messages.ModulePlan{Module: "g", Step: messages.StepPurge}, messages.ModulePlan{Module: "h", Step: messages.StepRun, Error: "no"},
		messages.ModulePlan{Module: "i", Step: messages.StepRun, Unknown: "values"},
	)
	want := messages.PlanSummary{Start: 1, Upgrade: 1, Stop: 1, Purge: 1, Keep: 1, Unchanged: 2, Failing: 1, Unknown: 1, Create: 1, Change: 1, Delete: 1}
	if p.Count(); !p.Changes() || p.Summary != want {
		t.Errorf("changes %v, %+v, want %+v", p.Changes(), p.Summary, want)
	}
	p.Modules = p.Modules[len(p.Modules)-1:]
	if p.Count(); !p.Changes() || p.Summary != (messages.PlanSummary{Unknown: 1}) {
		t.Errorf("what cannot be foretold is no promise that nothing happens: %+v", p.Summary)
	}
}
