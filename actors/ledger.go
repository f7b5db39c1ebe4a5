package actors

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/messages"
)

// ledger is what an owner knows of the tasks that queues gave it. It survives crashes, of
// the owner and of the queue, and makes of "asked at least once" a "done exactly once":
//
//   - A queue that crashes asks again for its current task. When that has ended already,
//     and only the TaskDone was lost or is still in the mailbox, it is sent again;
//     without that the task would run twice, and in parallel with the next one.
//   - An owner that crashes over the end of a run notifies the queue when it starts
//     again; without that the queue would wait forever.
type ledger struct {
	open map[string]openTask // by ID
	// ended is the last task of each queue that has ended: a queue asks for one task at a
	// time, so it can only ask again for this one.
	ended map[string]string
}

// openTask is a task for whose end a queue waits.
type openTask struct {
	task      messages.Task
	queue     *actor.PID
	succeeded bool // it has had its effect; only its run is not gone yet
}

func newLedger() ledger {
	return ledger{open: map[string]openTask{}, ended: map[string]string{}}
}

// begin notes a task that the sender of the message in hand asks for. It reports false
// when the task has ended already; then the answer is given again.
func (l ledger) begin(ctx actor.Context, t messages.Task) bool {
	if l.ended[t.Queue] == t.ID {
		ctx.Send(ctx.Sender(), messages.TaskDone{ID: t.ID})
		return false
	}
	l.open[t.ID] = openTask{t, ctx.Sender(), l.open[t.ID].succeeded}
	return true
}

// succeeded notes that a task must not be done again, whatever happens.
func (l ledger) succeeded(t messages.Task) {
	if o, ok := l.open[t.ID]; ok {
		o.succeeded = true
		l.open[t.ID] = o
	}
}

// end notifies the queue that a task has ended.
func (l ledger) end(ctx sender, t messages.Task, queue *actor.PID) {
	delete(l.open, t.ID)
	l.ended[t.Queue] = t.ID
	ctx.Send(queue, messages.TaskDone{ID: t.ID})
}

// refuse answers a task that is not executed.
func (l ledger) refuse(ctx actor.Context, t messages.Task) { l.end(ctx, t, ctx.Sender()) }

// lose notifies the queue that a task must be assigned again.
func (l ledger) lose(ctx sender, t messages.Task, queue *actor.PID) {
	delete(l.open, t.ID)
	ctx.Send(queue, messages.TaskDone{ID: t.ID, Lost: true})
}

// settle is called when the owner starts, also after a crash: the runs of its last life
// are gone, so what is open then has ended without anybody having said so.
func (l ledger) settle(ctx sender) {
	for _, id := range slices.Sorted(maps.Keys(l.open)) {
		if o := l.open[id]; o.succeeded {
			l.end(ctx, o.task, o.queue)
		} else {
			l.lose(ctx, o.task, o.queue)
		}
	}
}

// sender is the part of an actor's context, or of the system, that sends.
type sender interface {
	Send(to *actor.PID, message any)
}
