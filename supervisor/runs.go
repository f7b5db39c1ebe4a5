package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cenkalti/backoff/v4"
)

// ErrCancelled is the cause of the context of a run that its owner has cancelled.
var ErrCancelled = errors.New("cancelled")

// Task is what [Runs] needs to know of a task.
type Task struct {
	// ID is unique among the tasks in progress; the child is called run/<ID>.
	ID string
	// AllowFailure ends the task after its first failure (F12).
	AllowFailure bool
	// Work does the task. It may block, must return soon after the run's context is done
	// and is called again for each attempt. Its goroutine is the run's own: it must not
	// touch its owner's fields, only [Ask] it.
	Work func(*Run) (result any, err error)
	// Begins is called in the owner's goroutine before each attempt, to hand over what Work
	// needs. Optional.
	Begins func()
	// Succeeded is called in the owner's goroutine with the result of Work. Optional.
	Succeeded func(ctx actor.Context, result any)
	// Failed is called in the owner's goroutine after each failed attempt. Optional.
	Failed func(Attempt)
	// Ended is called in the owner's goroutine, exactly once, when the run and all it
	// started are gone. done: it has succeeded; else it was cancelled, or its failure was final.
	Ended func(ctx actor.Context, done bool)
}

// Attempt describes a failed attempt at a task.
type Attempt struct {
	Number int // counted from 1
	Err    error
	Final  bool          // no further attempt
	In     time.Duration // until the next attempt
}

// Runs supervises the runs of one owner: it starts a child for each task, restarts it with backoff
// when it fails, and notifies the owner when it is gone. The owner passes every message to
// [Runs.Receive] first, and is the supervision strategy of its children (HandleFailure), so that
// all is handled in the owner's goroutine, and no field needs a lock.
type Runs struct {
	system   *System
	runs     map[string]*run // by the ID of the task
	stopping bool
}

// NewRuns makes the supervision of one owner.
func NewRuns(system *System) *Runs {
	return &Runs{system: system, runs: map[string]*run{}}
}

// run is the owner's record of a child.
type run struct {
	task    Task
	pid     *actor.PID
	cancel  context.CancelCauseFunc
	done    bool             // it has succeeded
	failed  int              // attempts
	delays  backoff.BackOff  // one for the whole task, so that delays grow from attempt to attempt
	sup     actor.Supervisor // restarts the child; nil before its first failure
	timer   *time.Timer      // until the next attempt; nil during one
	last    bool             // the attempt in progress is the last
	stopped bool             // a Stop is on its way to the child: whatever it still sends counts for nothing
}

// messages of this file
type (
	begin     struct{ failed int } // to a run: an attempt begins
	succeeded struct {             // from a run to its owner
		run    *run
		result any
	}
	// restartDue is sent by a timer to the owner, which decides: a restart that was posted by the timer itself
	// could reach a child that is stopped already, and revive it (Q1), or a namesake (Q3).
	restartDue struct{ run *run }
)

// failure is what a run panics with when its task fails, for its owner. Any other panic is a bug.
type failure struct{ err error }

// Lives reports whether a task is in progress and not cancelled. What a cancelled run has
// sent just before may come later, and must change nothing any more.
func (r *Runs) Lives(id string) bool {
	rec, ok := r.runs[id]
	return ok && !rec.stopped
}

// Len is the number of tasks in progress.
func (r *Runs) Len() int { return len(r.runs) }

// SplitRun splits the path of a run into the path of its owner and the ID of its task. It cuts at
// the last "/run/", because a module may be called run.
func SplitRun(path string) (owner, task string, ok bool) {
	i := strings.LastIndex(path, "/run/")
	if i < 0 {
		return "", "", false
	}
	return path[:i], path[i+len("/run/"):], true
}

// Start begins a task; no other task in progress may have its ID. While the owner ends no task is
// begun: messages that were in the mailbox when the stop came are still handled as long as other
// runs end, and what they begin would never be cancelled.
func (r *Runs) Start(ctx actor.Context, t Task) {
	if r.stopping {
		t.Ended(ctx, false)
		return
	}
	runCtx, cancel := context.WithCancelCause(context.Background())
	rec := &run{task: t, cancel: cancel, delays: r.system.backoff()}
	props := r.system.runProps(func() actor.Actor { return &worker{rec, Run{ctx: runCtx, system: r.system}} })
	var err error
	if rec.pid, err = ctx.SpawnNamed(props, "run/"+t.ID); err != nil {
		panic(fmt.Errorf("bug: two tasks have the ID %s: %w", t.ID, err))
	}
	r.runs[t.ID] = rec
	r.attempt(rec)
}

// attempt begins the next attempt. After a failure the child is restarted before it receives begin: messages of
// the library go first, and its mailbox is suspended until then.
func (r *Runs) attempt(rec *run) {
	rec.timer = nil
	r.system.Inspector.Publish(rec.pid, RunStatus{Attempt: rec.failed})
	if rec.task.Begins != nil {
		rec.task.Begins()
	}
	if rec.sup != nil {
		rec.sup.RestartChildren(rec.pid)
	}
	r.system.Send(rec.pid, begin{rec.failed})
}

// Receive handles the messages that belong to the runs, and reports whether the message was one.
// The owner must handle Stopping, too, so that one is reported as not handled.
func (r *Runs) Receive(ctx actor.Context) bool {
	switch msg := ctx.Message().(type) {
	case succeeded:
		r.succeeded(ctx, msg)
	case restartDue:
		if msg.run.timer != nil {
			r.attempt(msg.run)
		}
	case *actor.Terminated:
		return r.terminated(ctx, msg)
	case *actor.Stopping:
		r.stopping = true
		r.CancelAll(ErrCancelled)
		return false
	default:
		return false
	}
	return true
}

func (r *Runs) succeeded(ctx actor.Context, msg succeeded) {
	if msg.run.stopped {
		return
	}
	if msg.run.task.Succeeded != nil {
		msg.run.task.Succeeded(ctx, msg.result)
	}
	msg.run.done = true
	r.stop(msg.run, nil)
}

// HandleFailure makes the owner the supervision strategy of its runs: a failed run is restarted after a pause, or
// stopped when its failure is final. It implements actor.SupervisorStrategy.
func (r *Runs) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, _ any) {
	path, id, _ := SplitRun(child.Id)
	rec := r.runs[id]
	failed, ok := reason.(failure)
	if !ok || rec == nil || rec.stopped {
		return // a Stop waits in its mailbox: a restart would cancel it (Q2)
	}
	rec.failed++
	a := Attempt{Number: rec.failed, Err: failed.err, Final: rec.task.AllowFailure || rec.last}
	if a.Final {
		r.stop(rec, nil)
	} else {
		a.In = rec.delays.NextBackOff()
		owner := r.system.PID(path)
		rec.sup = sup
		rec.timer = time.AfterFunc(a.In, func() { r.system.Send(owner, restartDue{rec}) })
		text := strings.Join(strings.Fields(strings.ReplaceAll(a.Err.Error(), "\n", " ⏎ ")), " ")
		r.system.Inspector.Publish(child, RunStatus{Attempt: a.Number, RetryAt: time.Now().Add(a.In), Error: text})
	}
	if rec.task.Failed != nil {
		rec.task.Failed(a)
	}
}

// terminated is the only way out of a run: success, an allowed failure, a cancel and the
// stop of the program all end here, so Ended is called once.
func (r *Runs) terminated(ctx actor.Context, msg *actor.Terminated) bool {
	_, id, _ := SplitRun(msg.Who.Id)
	rec := r.runs[id]
	if rec == nil {
		return false
	}
	rec.cancel(nil)
	delete(r.runs, id)
	rec.task.Ended(ctx, rec.done)
	return true
}

// RetryNow ends the delays of failed tasks (F8). It returns how many waited. A timer that has fired
// already counts for itself: its message is in the mailbox.
func (r *Runs) RetryNow() (waiting int) {
	for _, id := range slices.Sorted(maps.Keys(r.runs)) {
		if rec := r.runs[id]; rec.timer != nil && rec.timer.Stop() {
			waiting++
			r.attempt(rec)
		}
	}
	return waiting
}

// LastAttempt ends a task after the attempt in progress, or at once if it waits for the next one.
func (r *Runs) LastAttempt(id string) {
	if rec := r.runs[id]; rec != nil {
		if rec.last = true; rec.timer != nil {
			r.stop(rec, ErrCancelled)
		}
	}
}

// CancelAll ends all tasks in progress: their contexts are done at once, their children
// go when their work has returned.
func (r *Runs) CancelAll(cause error) {
	for _, id := range slices.Sorted(maps.Keys(r.runs)) {
		r.stop(r.runs[id], cause)
	}
}

func (r *Runs) stop(rec *run, cause error) {
	if rec.stopped {
		return
	}
	rec.stopped = true
	rec.cancel(cause)
	if rec.timer != nil {
		rec.timer.Stop()
		rec.timer = nil
	}
	r.system.Actors.Root.Stop(rec.pid)
}

// Run is one attempt at a task, as its Work sees it.
type Run struct {
	ctx     context.Context
	system  *System
	self    *actor.PID
	attempt int
}

// Context is done when the owner has cancelled the task. Stored, because a run is the
// one place where the context and the work have the same life.
func (r *Run) Context() context.Context { return r.ctx }

// With is the same run with another context, which must be derived from its own.
func (r *Run) With(ctx context.Context) *Run {
	inner := *r
	inner.ctx = ctx
	return &inner
}

// Attempt is the number of failed attempts before this one.
func (r *Run) Attempt() int { return r.attempt }

// Step publishes what the run is doing.
func (r *Run) Step(format string, args ...any) {
	r.system.Inspector.Publish(r.self, RunStatus{Step: fmt.Sprintf(format, args...), Attempt: r.attempt})
}

// Status is what the actor with the given path has published last; nil for nothing.
func (r *Run) Status(path string) fmt.Stringer { return r.system.Inspector.Status(path) }

// Tell sends a message to the actor with the given path.
func (r *Run) Tell(path string, message any) { r.system.Send(r.system.PID(path), message) }

// Turn asks for a turn of the dispatcher, and returns what waits for it. Goroutines of a run
// that work side by side begin with it, so that a test decides which is first.
func (r *Run) Turn() (wait func()) {
	turn := make(chan struct{})
	r.system.dispatcher.Schedule(func() { close(turn) })
	return func() { <-turn }
}

// RunStatus is what a run publishes about itself.
type RunStatus struct {
	Step    string    `json:"step,omitempty"`
	Attempt int       `json:"failedAttempts"`
	RetryAt time.Time `json:"retryAt,omitzero"`
	Error   string    `json:"error,omitempty"`
}

// String implements Status.
func (s RunStatus) String() string {
	switch {
	case !s.RetryAt.IsZero():
		return fmt.Sprintf("waits until %s, failed attempts: %d: %s", s.RetryAt.Format(time.TimeOnly), s.Attempt, s.Error)
	case s.Attempt > 0:
		return fmt.Sprintf("%s (failed attempts: %d)", s.Step, s.Attempt)
	default:
		return s.Step
	}
}

// worker is the actor of a run. It blocks in Receive, which is allowed here: a busy mailbox has a
// goroutine of its own, and a panic in the work is supervised instead of ending the process. The
// library's Stop is seen only after Receive returns, so owners cancel the context first.
type worker struct {
	rec *run
	run Run
}

// Receive implements actor.Actor. It panics when the task fails: the failure escalates to the owner.
func (w *worker) Receive(ctx actor.Context) {
	msg, ok := ctx.Message().(begin)
	if !ok || w.run.ctx.Err() != nil {
		return
	}
	w.run.self, w.run.attempt = ctx.Self(), msg.failed
	result, err := w.rec.task.Work(&w.run)
	if err != nil {
		panic(failure{err})
	}
	ctx.Send(ctx.Parent(), succeeded{w.rec, result})
}

// The delays between two attempts at a task (rule F7): 5 s, 10 s, 20 s, 30 s, 30 s, …
const (
	firstDelay = 5 * time.Second
	maxDelay   = 30 * time.Second
)

// Backoff returns the delays between the attempts at one task. It never gives up.
//
// There is no jitter: attempts of one task are all that it spaces, and the library
// adds its jitter after the cap, which would break the promise of 30 s.
func Backoff() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstDelay),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(maxDelay),
		backoff.WithRandomizationFactor(0),
		backoff.WithMaxElapsedTime(0), // the default of 15 minutes would end in a hot loop
	)
}
