package messages_test

import (
	"testing"

	"addon-operator/messages"
)

// What counts as a change decides the exit code of the command.
func TestForecastCounts(t *testing.T) {
	f := messages.Forecast{Modules: []messages.ModuleForecast{
		{Module: "a", Step: messages.StepRun, Release: "skipped"}, {Module: "b", Step: messages.StepRun}, {Module: "c", Step: messages.StepKeep},
	}}
	if f.Count(); f.Changes() || f.Summary != (messages.ForecastSummary{Unchanged: 2, Keep: 1}) {
		t.Errorf("nothing to do: changes %v, %+v", f.Changes(), f.Summary)
	}
	f.Modules = append(f.Modules,
		messages.ModuleForecast{Module: "d", Step: messages.StepRun, Release: "upgraded", Objects: []messages.ObjectForecast{{Verb: "create"}, {Verb: "change"}, {Verb: "delete"}}},
		messages.ModuleForecast{Module: "e", Step: messages.StepStart}, messages.ModuleForecast{Module: "f", Step: messages.StepStop},
		messages.ModuleForecast{Module: "g", Step: messages.StepPurge}, messages.ModuleForecast{Module: "h", Step: messages.StepRun, Error: "no"},
		messages.ModuleForecast{Module: "i", Step: messages.StepRun, Unknown: "values"},
	)
	want := messages.ForecastSummary{Start: 1, Upgrade: 1, Stop: 1, Purge: 1, Keep: 1, Unchanged: 2, Failing: 1, Unknown: 1, Create: 1, Change: 1, Delete: 1}
	if f.Count(); !f.Changes() || f.Summary != want {
		t.Errorf("changes %v, %+v, want %+v", f.Changes(), f.Summary, want)
	}
	f.Modules = f.Modules[len(f.Modules)-1:]
	if f.Count(); !f.Changes() || f.Summary != (messages.ForecastSummary{Unknown: 1}) {
		t.Errorf("what cannot be foretold is no promise that nothing happens: %+v", f.Summary)
	}
}
