package shared

import (
	"errors"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

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
	kind, about := t.Work.Describe()
	s := messages.Step{
		Task: strings.TrimSpace(kind + " " + about), Owner: t.Owner, Queue: t.Queue, Began: began, Ended: time.Now(), Failed: failed,
		Cancelled: outcome == supervisor.Cancelled,
	}
	if parts != nil {
		s.Parts, s.Cut = parts.List, parts.Cut
	}
	return s
}

// Refuse ends a task that is not executed. The queue is the sender, so this works only while
// ExecuteTask is handled.
func Refuse(ctx actor.Context, t messages.Task) { TaskEnded(ctx, t, ctx.Sender()) }

// ErrNoSuchWork reports a bug: a task was sent to an owner that cannot do it.
var ErrNoSuchWork = errors.New("bug: this owner cannot do this work")
