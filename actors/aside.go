package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/messages"
)

// A hook does not run while one of its snapshots is not complete, and the queue does not wait
// for that either. What has triggered the hook is set aside: one task, as in the line (P5). Later
// triggers join it, so that their order holds, and it goes back into the line when monitors say
// that the snapshots are complete.

// setAside notes what of the current task is to be kept when it has ended.
func (q *queue) setAside(msg messages.SetAside) {
	if q.state.current != nil && q.state.current.ID == msg.ID {
		if q.state.left = &msg.Work; msg.Work.Carried() == 0 {
			q.state.left = nil // its run was cancelled after it had said what to keep
		}
	}
}

// keepAside sets a task aside.
func (q *queue) keepAside(ctx actor.Context, t messages.Task) {
	t.ID = q.program.newTaskID() // its owner has done the other
	q.state.aside = q.program.wait(q.state.aside, t)
	ctx.Send(q.program.PID(monitorsPath), messages.AwaitSnapshots{Owner: t.Owner, Hook: t.Hook(), Queue: q.name})
}

// joinAside lets the tasks at the head of the line join those that were set aside before.
func (q *queue) joinAside() {
	for len(q.state.pending) > 0 {
		head := q.state.pending[0]
		if !slices.ContainsFunc(q.state.aside, func(t messages.Task) bool { return joinable(t, head) }) {
			return
		}
		q.state.pending = slices.Delete(q.state.pending, 0, 1)
		q.state.aside = q.program.wait(q.state.aside, head)
	}
}

// bringBack puts what was set aside for a hook into the line.
func (q *queue) bringBack(msg messages.SnapshotsComplete) {
	of := func(t messages.Task) bool { return t.Owner == msg.Owner && t.Hook() == msg.Hook }
	for _, t := range q.state.aside {
		if !of(t) {
			continue
		}
		if msg.Resync {
			w, _ := t.Work.(messages.RunHook)
			w.Triggers = slices.DeleteFunc(slices.Clone(w.Triggers), isEvent)
			t.Work = w
		}
		if joins(t) {
			q.queueBefore(t)
		}
	}
	q.state.aside = slices.DeleteFunc(q.state.aside, of)
}

// queueBefore adds a task; its triggers are older than those of one that waits for the same hook.
func (q *queue) queueBefore(t messages.Task) {
	i := slices.IndexFunc(q.state.pending, func(waiting messages.Task) bool { return joinable(t, waiting) })
	if i < 0 {
		q.state.pending = append(q.state.pending, t)
		return
	}
	both := q.program.wait([]messages.Task{t}, q.state.pending[i])
	q.state.pending[i] = both[0]
}
