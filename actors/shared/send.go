package shared

import (
	"errors"
	"log/slog"
	"reflect"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// Owner is the address of an owner of tasks.
func (p *Program) Owner(name string) *actor.PID { return p.PID(work.OwnerPath(name)) }

// NewTask makes a task for the main queue.
func (p *Program) NewTask(owner string, w messages.Work, cause messages.Cause) messages.Task {
	return p.Runs.Tasks.New(owner, w, cause)
}

// Enqueue sends tasks to their queues. main always exists and is addressed directly. Other queues
// come and go, so their tasks take the way through the root, which spawns a queue when it must. All
// tasks of one sender for one queue take the same way, so their order is kept.
func (p *Program) Enqueue(from Sender, head bool, tasks ...messages.Task) {
	for len(tasks) > 0 {
		queue, n := tasks[0].Queue, 1
		for n < len(tasks) && tasks[n].Queue == queue {
			n++
		}
		to := p.PID(work.Root)
		if queue == messages.MainQueue {
			to = p.PID(work.QueuePath + queue)
		}
		from.Send(to, messages.Enqueue{Queue: queue, Tasks: tasks[:n:n], Head: head})
		tasks = tasks[n:]
	}
}

// NameQueues has the queues begin that hooks name, so that lists show them from then on.
func (p *Program) NameQueues(from Sender, found []hooks.Hook) {
	for _, name := range hooks.Queues(found) {
		from.Send(p.PID(work.Root), messages.Enqueue{Queue: name})
	}
}

// Sender is the part of an actor's context, or of the system, that sends.
type Sender interface {
	Send(to *actor.PID, message any)
}

// TaskEnded notifies the queue that it need not wait for a task any more: nothing of it runs, or it is
// parked.
func TaskEnded(ctx Sender, t messages.Task, queue *actor.PID) {
	ctx.Send(queue, messages.TaskDone{ID: t.ID})
}

// Refuse ends a task that is not executed. The queue is the sender, so this works only while
// ExecuteTask is handled.
func Refuse(ctx actor.Context, t messages.Task) { TaskEnded(ctx, t, ctx.Sender()) }

// ErrNoSuchWork reports a bug: a task was sent to an owner that cannot do it.
var ErrNoSuchWork = errors.New("bug: this owner cannot do this work")

// Unhandled is the last case of every actor. The messages of the library's own lifecycle need no
// handling; any other message here is a bug. testkit fails a test that logs it.
func Unhandled(ctx actor.Context, log *slog.Logger) {
	switch msg := ctx.Message().(type) {
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Terminated, *actor.DeadLetterResponse:
	default:
		log.Error("bug: actor has no handler for a message", "actor", ctx.Self().Id, "message", typeName(msg))
	}
}

func typeName(v any) string { return reflect.TypeOf(v).String() }

// SendLater sends an actor a message of its own after a delay. A message that is on its way already arrives although the
// timer is stopped.
func (p *Program) SendLater(ctx actor.Context, in time.Duration, message any) *time.Timer {
	self := ctx.Self()
	return time.AfterFunc(in, func() { p.Send(self, message) })
}
