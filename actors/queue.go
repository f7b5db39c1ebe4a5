package actors

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// queue is a FIFO of tasks (F1): a line, and a head that its owner executes. A head that fails stays the head while its
// owner retries it, so the order holds without further work (F6). It leaves in three ways:
//
//	done          TaskDone: nothing of it runs any more, or it goes on outside of the queue (isolate)
//	replaced      a reload waits, which does again what the failing head does (F10)
//	held          a reload waits, and the failing head is an event or a tick: it is tried again after the reload (F6)
type queue struct {
	program *program
	name    string
	line    []messages.Task
	head    *head // nil: nothing is in progress
}

// head is the task that has begun and is not done.
type head struct {
	messages.Task
	since  time.Time
	failed bool // an attempt has; the next one may be in progress
	leaves bool // its owner was told to make no further attempt
}

func newQueue(p *program, name string) *queue {
	return &queue{program: p, name: name}
}

// Receive implements actor.Actor.
func (q *queue) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
	case messages.Enqueue:
		q.enqueue(msg)
	case messages.TaskFailed:
		if q.head != nil && q.head.ID == msg.ID {
			q.head.failed = true
			if _, group := q.head.Work.(messages.RunModules); group {
				q.head.leaves = false // a module that has begun since has not received EndAttempts
			}
		}
	case messages.TaskDone:
		q.taskDone(msg)
	default:
		unhandled(ctx, q.program.Log)
		return
	}
	// Every message may have freed the queue, or have brought what the head makes way for. So after each message the
	// queue begins what it can, and then publishes what it has become.
	q.makeWay(ctx)
	q.next(ctx)
	q.publish(ctx)
}

func (q *queue) enqueue(msg messages.Enqueue) {
	now, action := time.Now(), addLast
	if msg.Head {
		action = addFirst
	}
	if len(msg.Tasks) > 0 {
		defer func() { q.program.Metrics.actions.WithLabelValues(q.name, action).Observe(seconds(now)) }()
	}
	for i := range msg.Tasks {
		t := msg.Tasks[i]
		t.QueuedAt = now
		q.add(t, msg.Head, i)
	}
}

// taskDone ends the head, or puts it back into the line, behind the reload that it makes way for.
func (q *queue) taskDone(msg messages.TaskDone) {
	if q.head == nil || q.head.ID != msg.ID {
		return
	}
	if msg.Held {
		at := 1 + slices.IndexFunc(q.line, isReload)
		q.line = slices.Insert(q.line, at, q.head.Task)
	}
	q.head = nil
}

// makeWay has the owner of a failing head end it or hold it, if a task waits that comes first (F6, F10). An attempt in
// progress ends first.
func (q *queue) makeWay(ctx actor.Context) {
	if q.head == nil || !q.head.failed || q.head.leaves {
		return
	}
	i := slices.IndexFunc(q.line, func(t messages.Task) bool { return replaces(t, q.head.Task) || holds(t, q.head.Task) })
	if i < 0 {
		return
	}
	first := q.line[i]
	q.line = slices.Delete(q.line, i, i+1)
	if isReload(first) {
		q.addReload(first, true)
	} else { // a discovery: the run follows it, so that no other module passes
		again := q.head.Task
		again.ID, again.Cause = q.program.Runs.Tasks.NewID(), first.Cause
		q.line = slices.Insert(q.line, 0, first, again)
	}
	q.head.leaves = true
	ctx.Send(q.program.Owner(q.head.Owner), messages.EndAttempts{ID: q.head.ID, Hold: holds(first, q.head.Task)})
}

func isReload(t messages.Task) bool {
	_, reload := t.Work.(messages.ReloadModules)
	return reload
}

// replaces reports whether a waiting task does again what a failing one does: a reload the steps of the one before it,
// and all else of modules; a discovery the runs of the modules that it is for.
func replaces(t, failing messages.Task) bool {
	switch w := t.Work.(type) {
	case messages.ReloadModules:
		return ofReload(failing)
	case messages.DiscoverModules:
		_, one := failing.Work.(messages.RunModule)
		return one && slices.Contains(w.Modules, failing.Owner)
	}
	return false
}

// holds reports whether a reload begins before a failing task, which is tried again afterwards: an event, or a tick. What
// global hooks do at the start is never passed: the discovery needs what they set.
func holds(t, failing messages.Task) bool {
	if !isReload(t) {
		return false
	}
	switch w := failing.Work.(type) {
	case messages.RunHook:
		return w.Binding == hooks.OnKubernetes || w.Binding == hooks.OnSchedule
	case messages.SynchronizeHook: // one that was deferred, or is repeated
		return messages.ModuleOf(failing.Owner) != ""
	}
	return false
}

// next begins the first task, if none is in progress. A v0 hook runs once for each trigger, so the rest of its task keeps
// the place in the line (C20).
func (q *queue) next(ctx actor.Context) {
	if q.head != nil || len(q.line) == 0 {
		return
	}
	now := time.Now()
	first, rest, more := firstRun(q.line[0])
	if more {
		rest.ID = q.program.Runs.Tasks.NewID()
		q.line[0] = rest
	} else {
		q.line = slices.Delete(q.line, 0, 1)
	}
	q.head = &head{Task: first, since: now}
	q.program.Metrics.actions.WithLabelValues(q.name, removeFirst).Observe(seconds(now))
	q.program.Metrics.TaskStarted(first)
	ctx.Request(q.program.Owner(first.Owner), messages.ExecuteTask{Task: first})
}

// publish shows the queue on debug pages and to metrics.
func (q *queue) publish(ctx actor.Context) {
	s := view.QueueStatus{Length: len(q.line)}
	s.Triggers, s.Crowded = q.count()
	if q.head != nil {
		s.Length++
		s.InProgress, s.Since, s.Head = true, q.head.since, []messages.Task{q.head.Task}
	}
	for _, t := range q.line {
		if _, hook := t.Work.(messages.RunHook); !hook || len(s.Head) < view.ShownTasks {
			s.Head = append(s.Head, t)
		}
	}
	q.program.Inspector.Publish(ctx.Self(), s)
}
