package actors

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

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
	// begins, succeeded, failed and cancelled are optional; begins is called before each attempt.
	begins    func()
	succeeded func(actor.Context, any)
	failed    func(supervisor.Attempt)
	cancelled func(actor.Context)
	// waits is called when a module run begins or ends to wait for another module.
	waits func(ctx actor.Context, waits bool)
	// parks: after its first failure the queue goes on without it (policy isolate).
	parks bool
	// release: it changes a release. When it is unknown what Helm would do with an object of it,
	// the queue goes on without it, too (P13).
	release bool
}

// ownTasks are the tasks of an owner that are in progress, and their runs.
type ownTasks struct {
	part
	runs       *supervisor.Runs
	unfinished *work.Unfinished    // of the owner
	over       func(messages.Task) // is called at the end of each

	failing  map[string]view.FailingTask
	parked   map[string]bool       // their queue no longer waits for them
	alone    map[string]bool       // need the release for themselves
	next     []assignment          // wait for the end of these
	changing map[string]assignment // change the release
	ofHooks  map[string]string     // the hooks that they run
	waitsFor *view.Wait            // the Helm hook that one of them waits for; not written to
	told     toldWait
}

func newTasks(of part, unfinished *work.Unfinished) *ownTasks {
	return &ownTasks{
		part: of, runs: supervisor.NewRuns(of.program.System, of.log), unfinished: unfinished,
		failing: map[string]view.FailingTask{}, parked: map[string]bool{}, alone: map[string]bool{}, changing: map[string]assignment{}, ofHooks: map[string]string{},
	}
}

// attemptFailed notes a failed attempt. The queue goes on without a task that parks.
func (o *ownTasks) attemptFailed(a assignment, at supervisor.Attempt) {
	t := a.Task
	o.noteFailure(t, at)
	if a.failed != nil {
		a.failed(at)
	}
	o.failedWaiting(a, at)
	switch parks := a.parks || a.release && helm.IsAway(at.Err); {
	case o.parked[t.ID] || at.Final || helm.IsWaiting(at.Err) && !parks:
	case parks:
		o.program.notify(kube.Notice{Warning: true, Reason: "ModuleParked", Message: fmt.Sprintf("%s failed and is retried outside of the main queue; other modules go on: %s", t, forEverybody(at.Err))})
		o.log.Warn("module is parked: it is retried outside of the queue, the others go on")
		o.park(a)
	default:
		o.program.waits(t, at.Err)
	}
}

// start gives a task to a run. The queue hears of its end exactly once.
func (o *ownTasks) start(ctx actor.Context, a assignment) {
	t := a.Task
	work := func(run *supervisor.Run) (any, error) {
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
	began, failed := time.Now(), 0
	o.runs.Start(ctx, supervisor.Task{
		ID: t.ID, AllowFailure: t.AllowFailure, Begins: func() { o.handTo(a) }, Work: work,
		Succeeded: func(ctx actor.Context, result any) {
			if a.succeeded != nil {
				a.succeeded(ctx, result)
			}
		},
		Failed: func(at supervisor.Attempt) {
			failed = at.Number
			o.attemptFailed(a, at)
		},
		Ended: func(ctx actor.Context, outcome supervisor.Outcome) {
			if reloadOf(t) > 0 {
				o.tellStep(ctx, t, step(t, began, failed, outcome, a.Parts))
			}
			o.over(t)
			if a.release {
				delete(o.changing, t.ID)
				o.waitsFor = nil
			}
			if a.cancelled != nil && outcome == supervisor.Cancelled {
				a.cancelled(ctx)
			}
			o.program.noticeEnd(t, o.failing[t.ID], outcome)
			delete(o.failing, t.ID)
			delete(o.ofHooks, t.ID)
			o.dropEffects(t)
			if !o.parked[t.ID] {
				ended(ctx, t, a.queue)
			}
			delete(o.parked, t.ID)
			delete(o.alone, t.ID)
			o.startNext(ctx)
		},
	})
}

// waits says to the queue of a task that it waits for its next attempt, after one that has failed.
func (p *program) waits(t messages.Task, err error) {
	p.Send(p.PID(queuePath+t.Queue), messages.TaskWaits{ID: t.InQueue(), Holder: helm.HolderOf(err)})
}

// sender is the part of an actor's context, or of the system, that sends.
type sender interface {
	Send(to *actor.PID, message any)
}

// ended notifies the queue that it need not wait for a task any more: nothing of it runs, or it is parked.
func ended(ctx sender, t messages.Task, queue *actor.PID) {
	ctx.Send(queue, messages.TaskDone{ID: t.ID})
}

// refuse answers a task that is not executed.
func refuse(ctx actor.Context, t messages.Task) { ended(ctx, t, ctx.Sender()) }

// handTo hands over to an attempt that is about to begin.
func (o *ownTasks) handTo(a assignment) {
	*a.Known = o.self.known()
	if a.begins != nil {
		a.begins()
	}
}

// startAlone starts a task that needs the release of the module for itself. What is left
// of an earlier one, which is parked, is cancelled first: its result is no longer needed.
func (o *ownTasks) startAlone(ctx actor.Context, a assignment) {
	o.next = append(o.next, a)
	for id := range o.alone {
		o.runs.Cancel(ctx, id)
	}
	o.startNext(ctx)
}

// startNext starts the latest of the tasks that wait for the release; the ones before it
// would only do the same with older values.
func (o *ownTasks) startNext(ctx actor.Context) {
	if len(o.alone) > 0 || len(o.next) == 0 {
		return
	}
	waiting := o.next
	o.next = nil
	last := len(waiting) - 1
	for _, a := range waiting[:last] {
		ended(ctx, a.Task, a.queue)
	}
	o.alone[waiting[last].Task.ID] = true
	o.start(ctx, waiting[last])
}

// dropNext ends the tasks that have not begun.
func (o *ownTasks) dropNext(ctx actor.Context) {
	for _, a := range o.next {
		ended(ctx, a.Task, a.queue)
	}
	o.next = nil
}

// noteFailure logs a failed attempt and shows it in the status.
func (o *ownTasks) noteFailure(t messages.Task, a supervisor.Attempt) {
	o.logFailure(t, a)
	o.program.noticeFailure(t, a)
	kind, about := t.Work.Describe()
	o.failing[t.ID] = view.FailingTask{
		Task: strings.TrimSpace(kind + " " + about), Attempts: a.Number, RetryAt: time.Now().Add(a.In), Error: a.Err.Error(),
		Hook: t.Hook(), Public: forEverybody(a.Err),
	}
}

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

// listFailing lists the tasks that wait for another attempt.
func (o *ownTasks) listFailing() []view.FailingTask {
	var list []view.FailingTask
	for _, id := range slices.Sorted(maps.Keys(o.failing)) {
		list = append(list, o.failing[id])
	}
	return list
}

func (o *ownTasks) retryNow() {
	if n := o.runs.RetryNow(); n > 0 {
		o.log.Info("configuration has changed: failed tasks are tried again now", "tasks", n)
	}
}

// errNoSuchWork is a mistake of ours: a task came to an owner that cannot do it.
var errNoSuchWork = errors.New("bug: this owner cannot do this work")

// dropEffects gives up what is left of a task that has ended.
func (o *ownTasks) dropEffects(t messages.Task) {
	for _, s := range o.unfinished.Drop(t.ID) {
		o.program.Send(o.program.PID(monitorsPath), messages.SynchronizationEnded{Owner: o.name, Synchronization: s})
	}
}
