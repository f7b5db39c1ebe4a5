package queues

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/messages"
)

// setAside notes what of the current task is to be kept when it has ended.
//
// A hook does not run while one of its snapshots is not complete, and its queue does not wait for
// that. What has triggered the hook is set aside as one task (P5). Later triggers join it, so that
// their order holds, and it returns to the line when monitors report that the snapshots are
// complete.
func (q *queue) setAside(msg messages.SetAside) {
	if q.current != nil && q.current.ID == msg.ID {
		if q.left = &msg.Work; msg.Work.Carried() == 0 {
			q.left = nil // its run was cancelled after it had said what to keep
		}
	}
}

// keepAside sets a task aside.
func (q *queue) keepAside(ctx actor.Context, t messages.Task) {
	t.ID = q.program.Runs.Tasks.NewID() // its owner has done the other
	q.aside = q.program.MergeIntoWaiting(q.aside, t)
	ctx.Send(q.program.PID(work.MonitorsPath), messages.AwaitSnapshots{Owner: t.Owner, Hook: t.Hook(), Queue: q.name})
}

// mergeAside merges the tasks at the head of the line into those that were set aside before.
func (q *queue) mergeAside() {
	for len(q.line.tasks) > 0 {
		head := q.line.tasks[0]
		if !slices.ContainsFunc(q.aside, func(t messages.Task) bool { return shared.Mergeable(t, head) }) {
			return
		}
		q.line.tasks = slices.Delete(q.line.tasks, 0, 1)
		q.aside = q.program.MergeIntoWaiting(q.aside, head)
	}
}

// bringBack puts what was set aside for a hook into the line.
func (q *queue) bringBack(msg messages.SnapshotsComplete) {
	of := func(t messages.Task) bool { return t.Owner == msg.Owner && t.Hook() == msg.Hook }
	for _, t := range q.aside {
		if !of(t) {
			continue
		}
		if msg.Resync {
			w, _ := t.Work.(messages.RunHook)
			w.Triggers = slices.DeleteFunc(slices.Clone(w.Triggers), work.IsEvent)
			t.Work = w
		}
		if shared.CarriesTriggers(t) {
			q.line.queueBefore(t)
		}
	}
	q.aside = slices.DeleteFunc(q.aside, of)
}
