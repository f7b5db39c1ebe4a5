package modules

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// assignment is a task with what a run must do for it.
type assignment struct {
	work.Job
	queue *actor.PID
	work  func(*supervisor.Run) (any, error)
	// begins, succeeded, failed and cancelled are optional. They run in the mailbox of the owner:
	// begins before each attempt, failed after each failed one, the others at most once.
	begins    func()
	succeeded func(actor.Context, any)
	failed    func(supervisor.Attempt)
	cancelled func(actor.Context)
	// waits is called when a module run begins or ends to wait for another module.
	waits func(ctx actor.Context, waits bool)
	// parks: after its first failure the queue continues without the task (option isolate). The run
	// goes on with its retries.
	parks bool
	// release: the task changes a release. While its objects cannot be judged, because an API that
	// they need is away, the queue continues without the task, as if it parked (P13).
	release bool
}

// ownTasks are the tasks of an owner that are in progress, and their runs. All maps have task IDs
// as keys.
type ownTasks struct {
	part
	runs       *supervisor.Runs
	unfinished *work.Unfinished    // of the owner
	over       func(messages.Task) // called at the end of each task

	// failing are the tasks that wait for another attempt; the entry goes with the task.
	failing  map[string]view.FailingTask
	parked   map[string]bool       // the queue continues without them, so their end sends no TaskDone
	alone    map[string]bool       // the task that has the release of the module for itself; at most one
	next     []assignment          // wait until alone is empty; only the last is started
	changing map[string]assignment // they change the release
	ofHooks  map[string]string     // the names of the hooks that they run
	waitsFor *view.Wait            // the Helm hook that one of them waits for; replaced, never changed, because it is published
	told     toldWait
}

func newTasks(of part, unfinished *work.Unfinished) *ownTasks {
	return &ownTasks{
		part: of, runs: supervisor.NewRuns(of.program.System, of.log), unfinished: unfinished,
		failing: map[string]view.FailingTask{}, parked: map[string]bool{}, alone: map[string]bool{}, changing: map[string]assignment{}, ofHooks: map[string]string{},
	}
}

// attemptFailed notes a failed attempt and decides what the queue does meanwhile. A parked task is
// done for the queue. Any other failing task holds the queue, except for what goes past it
// (queues/held.go).
func (o *ownTasks) attemptFailed(a assignment, at supervisor.Attempt) {
	t := a.Task
	o.noteFailure(t, at)
	if a.failed != nil {
		a.failed(at)
	}
	o.failedWaiting(a)
	switch parks := a.parks || a.release && helm.IsAway(at.Err); {
	case o.parked[t.ID] || at.Final:
	case parks:
		o.program.Notify(kube.Notice{Warning: true, Reason: "ModuleParked", Message: fmt.Sprintf("%s failed and is retried outside of the main queue; other modules continue: %s", t, shared.ForEverybody(at.Err))})
		o.log.Warn("module is parked: it is retried outside of the queue, other modules continue")
		o.park(a)
	default:
		o.program.TaskWaits(t)
	}
}

// start gives a task to a run. Its queue receives TaskDone exactly once: here when the run has
// ended, or earlier when the task parks. An attempt waits for its turn in the queue first, and then
// finishes what an earlier attempt has left (D26).
func (o *ownTasks) start(ctx actor.Context, a assignment) {
	t := a.Task
	attempt := func(run *supervisor.Run) (any, error) {
		if err := a.AwaitTurn(run); err != nil {
			return nil, err
		}
		if err := a.GoOn(run); err != nil {
			return nil, err
		}
		return a.work(run)
	}
	if a.release {
		o.changing[t.ID] = a
	}
	if hook := t.Hook(); hook != "" {
		o.ofHooks[t.ID] = hook
	}
	o.runs.Start(ctx, supervisor.Task{
		ID: t.ID, AllowFailure: t.AllowFailure, Begins: func() { o.handTo(a) }, Work: attempt,
		Succeeded: func(ctx actor.Context, result any) {
			if a.succeeded != nil {
				a.succeeded(ctx, result)
			}
		},
		Failed: func(at supervisor.Attempt) { o.attemptFailed(a, at) },
		Ended: func(ctx actor.Context, outcome supervisor.Outcome) {
			// The order matters: over may queue the same work again, so it comes before the queue
			// continues; startNext comes last, because the next task must find the release free.
			o.over(t)
			if a.release {
				delete(o.changing, t.ID)
				o.waitsFor = nil
			}
			if a.cancelled != nil && outcome == supervisor.Cancelled {
				a.cancelled(ctx)
			}
			o.program.NoticeEnd(t, o.failing[t.ID], outcome)
			delete(o.failing, t.ID)
			delete(o.ofHooks, t.ID)
			o.dropEffects(t)
			if !o.parked[t.ID] {
				shared.TaskEnded(ctx, t, a.queue)
			}
			delete(o.parked, t.ID)
			delete(o.alone, t.ID)
			o.startNext(ctx)
		},
	})
}

// handTo hands over to an attempt that is about to begin.
func (o *ownTasks) handTo(a assignment) {
	*a.Known = o.self.known()
	if a.begins != nil {
		a.begins()
	}
}

// inherit is a run with the causes of those that it replaces, because they have not succeeded.
func (o *ownTasks) inherit(t messages.Task) messages.Task {
	for _, id := range slices.Sorted(maps.Keys(o.alone)) {
		t = t.Instead(o.changing[id].Task)
	}
	for _, a := range o.next {
		t = t.Instead(a.Task)
	}
	return t
}

// startAlone starts a task that needs the release of the module for itself (two Helm operations on
// one release corrupt its records). What is left of an earlier, parked task is cancelled first: the
// new one does the same with newer values.
func (o *ownTasks) startAlone(ctx actor.Context, a assignment) {
	o.next = append(o.next, a)
	for id := range o.alone {
		o.runs.Cancel(ctx, id)
	}
	o.startNext(ctx)
}

// startNext starts the latest of the tasks that wait for the release. Those before it would only do
// the same with older values, so they end without a run.
func (o *ownTasks) startNext(ctx actor.Context) {
	if len(o.alone) > 0 || len(o.next) == 0 {
		return
	}
	waiting := o.next
	o.next = nil
	last := len(waiting) - 1
	for _, a := range waiting[:last] {
		shared.TaskEnded(ctx, a.Task, a.queue)
	}
	o.alone[waiting[last].Task.ID] = true
	o.start(ctx, waiting[last])
}

// dropNext ends the tasks that wait for the release and have not begun.
func (o *ownTasks) dropNext(ctx actor.Context) {
	for _, a := range o.next {
		shared.TaskEnded(ctx, a.Task, a.queue)
	}
	o.next = nil
}

// noteFailure logs a failed attempt and shows it in the status.
func (o *ownTasks) noteFailure(t messages.Task, a supervisor.Attempt) {
	o.logFailure(t, a)
	o.program.NoticeFailure(t, a)
	o.failing[t.ID] = view.FailingTask{
		Task: t.What(), Attempts: a.Number, RetryAt: time.Now().Add(a.In), Error: a.Err.Error(),
		Hook: t.Hook(), Public: shared.ForEverybody(a.Err),
	}
}

// logFailure writes one line for each failed attempt. A failure that allowFailure permits is a
// warning, because nothing retries it (F12).
func (o *ownTasks) logFailure(t messages.Task, a supervisor.Attempt) {
	kind, about := t.Work.Describe()
	log := o.log.With("task", kind, "queue", t.Queue, "attempt", a.Number, "err", a.Err)
	if about != "" {
		log = log.With("about", about)
	}
	if a.Final {
		log.Warn("task failed; its failure is allowed")
		return
	}
	log.Error("task failed, will retry", "in", a.In)
}

// listFailing lists the tasks that wait for another attempt, in the order of their IDs, so that a
// page does not change from one publication to the next.
func (o *ownTasks) listFailing() []view.FailingTask {
	var list []view.FailingTask
	for _, id := range slices.Sorted(maps.Keys(o.failing)) {
		list = append(list, o.failing[id])
	}
	return list
}

// retryNow ends the delays of all failed tasks: what has changed may be what they failed at (F8).
func (o *ownTasks) retryNow() {
	if n := o.runs.RetryNow(); n > 0 {
		o.log.Info("configuration changed: failed tasks are retried now", "tasks", n)
	}
}

// dropEffects gives up what an ended task has left unfinished. A Synchronization among it has to
// end at the monitors, or they would hold back the events of its binding without end (C40).
func (o *ownTasks) dropEffects(t messages.Task) {
	for _, s := range o.unfinished.Drop(t.ID) {
		o.program.Send(o.program.PID(work.MonitorsPath), messages.SynchronizationEnded{Owner: o.name, Synchronization: s})
	}
}
