package shared

import (
	"time"

	"addon-operator/actors/work"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// ReloadOf is the reload whose step a task is; 0 for none. What the start-up causes belongs to the first one.
func ReloadOf(t messages.Task) int {
	if t.Reload == 0 && t.Cause.Activation == messages.Startup {
		return 1
	}
	return t.Reload
}

// Step is a task that has ended, for the record of its reload.
func Step(t messages.Task, began time.Time, failed int, outcome supervisor.Outcome, parts *work.Parts) messages.Step {
	s := messages.Step{
		Task: t.What(), Owner: t.Owner, Queue: t.Queue, Began: began, Ended: time.Now(), Failed: failed,
		Cancelled: outcome == supervisor.Cancelled,
	}
	if parts != nil {
		s.Parts, s.Cut = parts.List, parts.Cut
	}
	return s
}
