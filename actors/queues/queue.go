package queues

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/metrics"
	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// queue is a FIFO of tasks with one in progress (F1). It does not know what a task does: it asks
// the owner to execute the head, and continues when the owner answers that nothing of the task runs
// any more. A task that fails remains the head while its owner retries it, so the order is kept
// without further work (F6); what goes past it meanwhile is in held.go.
type queue struct {
	program *shared.Program
	name    string

	line    waitingLine
	current *messages.Task
	since   time.Time // when the current task began
	held    []held    // tasks that wait for their next attempt, while others go past them
	turns   []turn    // attempts at these that wait for the current task
	ending  int       // the number of an EndQueue that is not answered yet; 0 for none
	aside   []messages.Task
	// left is what remains of the current task when its hook has to wait for complete snapshots. It
	// is set aside only at TaskDone, because until then the run may still execute (aside.go).
	left    *messages.RunHook
	passed  []passedTask // tasks that wait for Helm hooks or other modules (passed.go)
	failed  []string     // the IDs of tasks that have failed and are not done
	holdsUp int          // the reload that steps of this queue hold up, as converge knows it; 0 for none
}

// New makes the actor of a queue.
func New(p *shared.Program, name string) actor.Actor { return newQueue(p, name) }

func newQueue(p *shared.Program, name string) *queue {
	return &queue{program: p, name: name, line: waitingLine{program: p, dropped: map[string][]messages.Cause{}}}
}

// Receive implements actor.Actor.
func (q *queue) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
	case messages.Enqueue:
		q.enqueue(msg)
	case messages.DropTasks:
		q.drop(msg)
	case messages.TaskDone:
		q.taskDone(ctx, msg)
	case messages.TaskWaits:
		q.taskWaits(msg)
	case messages.GetTurn:
		q.getTurn(ctx, msg)
	case messages.LetPass:
		q.letPass(msg)
	case messages.SetAside:
		q.setAside(msg)
	case messages.SnapshotsComplete:
		q.bringBack(msg)
	case messages.EndQueue:
		q.ending = msg.Number
	default:
		shared.Unhandled(ctx, q.program.Log)
		return
	}
	// Every message may have freed the queue or made another task the first. So after each message
	// the queue begins what it can, and then publishes what it has become.
	q.next(ctx)
	q.reportHeld(ctx)
	q.publish(ctx)
	q.tellEmpty(ctx)
}

// enqueue adds tasks. It keeps one run of a module: a run that waits already serves what has
// changed since (F9). The one in progress does not count, unless the task is only a repetition
// of it. Of the triggers of a hook it makes one task (C41).
func (q *queue) enqueue(msg messages.Enqueue) {
	now, action := time.Now(), metrics.AddLast
	if msg.Head {
		action = metrics.AddFirst
	}
	// Only tasks at the tail are compared with those that wait. What goes to the head is the
	// continuation of a task that has just ended (F5), in an order that its sender has decided.
	defer q.program.Metrics.Queues.Acted(q.name, action, now)
	if msg.Head {
		q.line.addFirst(msg.Tasks, now)
		return
	}
	for _, t := range msg.Tasks {
		t.QueuedAt = now
		q.line.add(t, msg.Tasks, q.begun())
	}
}

func (q *queue) drop(msg messages.DropTasks) {
	defer q.program.Metrics.Queues.Acted(q.name, metrics.Filter, time.Now())
	q.line.drop(msg.Reload)
}

// taskDone forgets a task. Its ID is searched everywhere, because a task may end while it is held
// or has been passed: cancelled by a switch of its module, or done by a reload that went past it.
func (q *queue) taskDone(ctx actor.Context, msg messages.TaskDone) {
	q.held = slices.DeleteFunc(q.held, func(h held) bool { return h.ID == msg.ID })
	q.failed = slices.DeleteFunc(q.failed, func(id string) bool { return id == msg.ID })
	q.passedDone(msg.ID)
	if q.current == nil || q.current.ID != msg.ID {
		return
	}
	done, left := *q.current, q.left
	q.left = nil
	q.current = nil
	if left != nil {
		done.Work = *left
		q.keepAside(ctx, done)
	}
}

// next begins the first task that may begin, if none is in progress. Attempts at held tasks come
// first: they are older than everything that waits (F6). A v0 hook runs once for each trigger, so
// the rest of its task keeps the place in the line (C20).
func (q *queue) next(ctx actor.Context) {
	q.grantTurns(ctx)
	if q.current == nil && len(q.held) == 0 {
		q.mergeAside()
	}
	at := q.nextPending()
	if at < 0 {
		return
	}
	now := time.Now()
	head, rest, more := firstRun(q.line.tasks[at])
	if more {
		rest.ID = q.program.Runs.Tasks.NewID()
		q.line.tasks[at] = rest
	} else {
		q.line.tasks = slices.Delete(q.line.tasks, at, at+1)
	}
	q.current, q.since = &head, now
	q.program.Metrics.Queues.Acted(q.name, metrics.RemoveFirst, now)
	q.program.Metrics.Queues.TaskStarted(head)
	ctx.Request(q.program.Owner(head.Owner), messages.ExecuteTask{Task: head})
}

// tellEmpty answers EndQueue, as soon as nothing waits and nothing is in progress.
func (q *queue) tellEmpty(ctx actor.Context) {
	if q.ending == 0 || len(q.begun())+len(q.line.tasks) > 0 {
		return
	}
	ctx.Send(q.program.PID(work.Root), messages.QueueEmpty{Name: q.name, Number: q.ending})
	q.ending = 0
}

// publish shows the queue on debug pages and to metrics. Since is the time at which the oldest
// unfinished task began: people search for what holds up the queue.
func (q *queue) publish(ctx actor.Context) {
	begun := q.begun()
	s := view.QueueStatus{Length: len(begun) + len(q.line.tasks), Since: q.since, InProgress: len(begun) > 0, Head: begun}
	s.Triggers, s.Crowded = q.line.count()
	s.Aside = len(q.aside)
	if q.name == messages.MainQueue {
		q.program.MainWaits.Store(len(q.passed) > 0)
	}
	switch {
	case len(q.passed) > 0:
		s.Since = q.passed[0].since
	case q.current == nil && len(q.held) > 0:
		s.Since = q.held[0].since
	}
	s.Head = append(s.Head, q.line.tasks[:min(len(q.line.tasks), shownTasks)]...)
	q.program.Inspector.Publish(ctx.Self(), s)
}

// shownTasks bounds how many waiting tasks are published: the status is made after each message,
// and a page that shows more helps no reader.
const shownTasks = 100
