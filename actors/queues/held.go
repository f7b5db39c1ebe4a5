package queues

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// held is a task that waits for its next attempt.
//
// A task that has failed stays before those behind it until its next attempt succeeds (F6). What
// may cure it must not wait for it, or the queue would wait without end: heals, runs of modules
// that provide what it lacks, deletes, and reloads that a person has asked for. These go past it,
// one at a time, while it waits. The next attempt then waits for the task in progress, so that the
// queue does one task at a time (F1).
//
//	current -TaskWaits-> held -GetTurn-> current
//	                     held -TaskDone-> gone (it was cancelled, or a reload does it again)
type held struct {
	messages.Task
	since time.Time // it was first begun
}

// turn is an attempt that waits until nothing is in progress.
type turn struct {
	task string
	from *actor.PID
}

// begun are the tasks that are not done: those that wait for Helm hooks, the one in progress, and
// the held ones.
func (q *queue) begun() []messages.Task {
	var all []messages.Task
	for _, b := range q.passed {
		all = append(all, b.Task)
	}
	if q.current != nil {
		all = append(all, *q.current)
	}
	for _, h := range q.held {
		all = append(all, h.Task)
	}
	return all
}

// taskWaits lets others go past the task in progress.
func (q *queue) taskWaits(msg messages.TaskWaits) {
	var waits held
	i := slices.IndexFunc(q.passed, func(b passedTask) bool { return b.ID == msg.ID && len(b.waiting) == 0 })
	switch {
	case q.current != nil && q.current.ID == msg.ID:
		waits = held{*q.current, q.since}
		q.current, q.left = nil, nil
	case i >= 0: // it had waited for a Helm hook, and then failed
		waits = held{q.passed[i].Task, q.passed[i].since}
		q.passed = slices.Delete(q.passed, i, i+1)
	default:
		return
	}
	q.held = append(q.held, waits)
	if !slices.Contains(q.failed, waits.ID) {
		q.failed = append(q.failed, waits.ID)
	}
}

// reportHeld notifies converge which reload may not end soon: the latest one with a step that waits
// for a Helm hook, or that has failed and is not done, also during its next attempt. It sends only
// changes. Converge needs it to decide whether a new reload may go past this one.
func (q *queue) reportHeld(ctx actor.Context) {
	reload := 0
	for _, b := range q.passed {
		if len(b.waiting) > 0 {
			reload = max(reload, b.Reload)
		}
	}
	for _, t := range q.begun() {
		if slices.Contains(q.failed, t.ID) {
			reload = max(reload, t.Reload)
		}
	}
	if reload != q.holdsUp {
		q.holdsUp = reload
		ctx.Send(q.program.PID(work.ConvergePath), messages.ReloadHeld{Reload: reload})
	}
}

// busy reports whether no other task may begin.
func (q *queue) busy() bool {
	return q.current != nil || slices.ContainsFunc(q.passed, func(b passedTask) bool { return len(b.waiting) == 0 })
}

// getTurn lets the next attempt at a task begin, or wait. A parked task is not held by the queue
// any more, so its attempts begin at once.
func (q *queue) getTurn(ctx actor.Context, msg messages.GetTurn) {
	if q.busy() && q.isHeld(msg.ID) {
		q.turns = append(q.turns, turn{msg.ID, ctx.Sender()})
		return
	}
	q.resume(msg.ID)
	ctx.Respond(messages.Turn{})
}

// grantTurns begins the attempts that wait, the oldest first. Of held tasks one at a time begins.
// Attempts of a task that is not held any more need no permission: one module of a group has
// resumed the task for all of its modules.
func (q *queue) grantTurns(ctx actor.Context) {
	var waiting []turn
	for _, t := range q.turns {
		if q.busy() && q.isHeld(t.task) {
			waiting = append(waiting, t)
			continue
		}
		q.resume(t.task)
		ctx.Send(t.from, messages.Turn{Waited: true})
	}
	q.turns = waiting
}

func (q *queue) isHeld(id string) bool {
	return slices.ContainsFunc(q.held, func(h held) bool { return h.ID == id })
}

// resume makes a task that is held the one in progress.
func (q *queue) resume(id string) {
	i := slices.IndexFunc(q.held, func(h held) bool { return h.ID == id })
	if i < 0 {
		return
	}
	task := q.held[i].Task
	q.current, q.since = &task, q.held[i].since
	q.held = slices.Delete(q.held, i, i+1)
}

// passes reports whether a task goes past one that waits for its next attempt.
func passes(t messages.Task, waiting held) bool {
	module := messages.ModuleOf(waiting.Owner)
	_, reload := t.Work.(messages.ReloadModules)
	_, deletes := t.Work.(messages.DeleteModule)
	switch {
	case reload || t.Reload > waiting.Reload:
		return yieldsToReload(waiting.Task)
	case module != "" && t.Owner == waiting.Owner:
		return false
	}
	// A heal that fails is no reason for anything to wait.
	return t.Urgent || deletes || waiting.Urgent && waiting.Reload == 0
}

// yieldsToReload reports whether a reload goes past a waiting task. It goes past tasks of modules,
// which it runs again or may switch off; past events and schedules of global hooks; and past
// afterAll of the reload before, whose place its own afterAll takes. It does not go past its own
// beforeAll, nor past the start-up: the discovery needs the values that they set.
func yieldsToReload(waiting messages.Task) bool {
	switch w := waiting.Work.(type) {
	case messages.RunModules:
		return true
	case messages.RunHook:
		return messages.ModuleOf(waiting.Owner) != "" || w.Binding == hooks.OnKubernetes || w.Binding == hooks.OnSchedule || w.Binding == hooks.AfterAll
	}
	return messages.ModuleOf(waiting.Owner) != ""
}
