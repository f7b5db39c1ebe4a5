package shared

import (
	"log/slog"
	"reflect"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/messages"
)

// Owner is the address of an owner of tasks.
func (p *Program) Owner(name string) *actor.PID { return p.PID(work.OwnerPath(name)) }

// NewTask makes a task for the main queue.
func (p *Program) NewTask(owner string, work messages.Work, cause messages.Cause) messages.Task {
	return p.Runs.Tasks.New(owner, work, cause)
}

// Enqueue sends tasks to their queues. main always exists and is addressed directly. Other queues
// come and go, so their tasks take the way through the root, which spawns a queue when it must. All
// tasks of one sender for one queue take the same way, so their order is kept.
func (p *Program) Enqueue(ctx actor.Context, head bool, tasks ...messages.Task) {
	for len(tasks) > 0 {
		queue, n := tasks[0].Queue, 1
		for n < len(tasks) && tasks[n].Queue == queue {
			n++
		}
		to := p.PID(work.Root)
		if queue == messages.MainQueue {
			to = p.PID(work.QueuePath + queue)
		}
		ctx.Send(to, messages.Enqueue{Queue: queue, Tasks: tasks[:n:n], Head: head})
		tasks = tasks[n:]
	}
}

// Tell sends the same message to the actors of some modules. The message is shared, so it must not
// hold what a receiver changes.
func (p *Program) Tell(ctx actor.Context, modules []addons.Module, message any) {
	for _, m := range modules {
		ctx.Send(p.Owner(m.Name), message)
	}
}

// Requeue queues tasks that did not end as they should. They get new IDs, because the queue has seen
// the end of the old ones.
//
// Flags switch a module off at once, before the reload that deletes it: a task that keeps failing
// must not delay that (F8). Until the reload comes nothing is lost, so that a switch back continues
// where it was (E14).
func (p *Program) Requeue(ctx actor.Context, tasks ...messages.Task) {
	for _, t := range tasks {
		t.ID = p.Runs.Tasks.NewID()
		p.Enqueue(ctx, false, t)
	}
}

// TaskWaits sends the queue of a task that it waits for its next attempt. The holder is the release
// that owns an object which the task needs, if the error names one: the purge of that release goes
// past (queues/held.go).
func (p *Program) TaskWaits(t messages.Task, err error) {
	p.Send(p.PID(work.QueuePath+t.Queue), messages.TaskWaits{ID: t.InQueue(), Holder: helm.HolderOf(err)})
}

// sender is the part of an actor's context, or of the system, that sends.
type sender interface {
	Send(to *actor.PID, message any)
}

// TaskEnded notifies the queue that it need not wait for a task any more: nothing of it runs, or it is
// parked.
func TaskEnded(ctx sender, t messages.Task, queue *actor.PID) {
	ctx.Send(queue, messages.TaskDone{ID: t.ID})
}

// Unhandled is the last case of every actor. The messages of the library's own lifecycle need no
// handling; any other message here is a bug. testkit fails a test that logs it.
func Unhandled(ctx actor.Context, log *slog.Logger) {
	switch msg := ctx.Message().(type) {
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Terminated, *actor.DeadLetterResponse:
	default:
		log.Error("unhandled message", "actor", ctx.Self().Id, "message", typeName(msg))
	}
}

func typeName(v any) string { return reflect.TypeOf(v).String() }
