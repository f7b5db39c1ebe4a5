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

// Outcome says how a task ended.
type Outcome string

// The ways a task ends.
const (
	Done      Outcome = "done"
	Allowed   Outcome = "failed, allowed" // failed, and its failure is allowed (F12)
	Cancelled Outcome = "cancelled"
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
	// started are gone.
	Ended func(ctx actor.Context, o Outcome)
}

func (t Task) begins() {
	if t.Begins != nil {
		t.Begins()
	}
}

// Attempt describes a failed attempt at a task.
type Attempt struct {
	Number int // counted from 1
	Err    error
	Final  bool          // the failure is allowed: no further attempt
	In     time.Duration // until the next attempt
}

// Runs supervises the runs of one owner: it starts a child for each task, restarts it with backoff
// when it fails, and notifies the owner when it is gone. The owner passes every message to
// [Runs.Receive] first, and is the supervision strategy of its children (HandleFailure), so that
// failures are handled in the owner's goroutine. No field needs a lock for that reason.
type Runs struct {
	system   *System
	self     *actor.PID
	runs     map[string]*run // by the path of the child
	stopping bool
}

// NewRuns makes the supervision of one owner.
func NewRuns(system *System) *Runs {
	return &Runs{system: system, runs: map[string]*run{}}
}

// run is the owner's record of a child. Only ctx and attempt are read by the child.
type run struct {
	task    Task
	pid     *actor.PID
	ctx     context.Context
	cancel  context.CancelCauseFunc
	outcome Outcome          // what Ended will report: Cancelled until something else is known
	attempt int              // failed ones
	delays  backoff.BackOff  // one for the whole task, so that delays grow from attempt to attempt
	timer   *time.Timer      // until the next attempt; nil during one
	sup     actor.Supervisor // restarts the child; from its last failure
	stopped bool             // a Stop is on its way to the child: whatever it still sends counts for nothing
	rests   bool             // an attempt has failed, and the next one has not begun
	last    bool             // the attempt in progress is the last
}

// messages of this file
type (
	begin     struct{}             // a run to itself
	succeeded struct{ Result any } // a run to its owner
	// restartDue is sent by a timer to the owner, which decides: a restart that was posted
	// by the timer itself could reach a child that is stopped already, and revive it.
	restartDue struct {
		run     string
		attempt int
	}
)

// Has reports whether a task is in progress.
func (r *Runs) Has(id string) bool {
	_, ok := r.runs[r.path(id)]
	return ok
}

// Lives reports whether a task is in progress and not cancelled. What a cancelled run has
// sent just before may come later, and must change nothing any more.
func (r *Runs) Lives(id string) bool {
	rec, ok := r.runs[r.path(id)]
	return ok && !rec.stopped
}

// Ending reports whether the owner stops. A run that it started now would keep it from doing so.
func (r *Runs) Ending() bool { return r.stopping }

// Len is the number of tasks in progress.
func (r *Runs) Len() int { return len(r.runs) }

func (r *Runs) path(id string) string {
	if r.self == nil {
		return ""
	}
	return r.self.Id + "/run/" + id
}

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
	r.self = ctx.Self()
	if r.Ending() {
		t.Ended(ctx, Cancelled)
		return
	}
	runCtx, cancel := context.WithCancelCause(context.Background())
	rec := &run{task: t, ctx: runCtx, cancel: cancel, outcome: Cancelled, delays: r.system.backoff()}
	t.begins()
	props := r.system.runProps(func() actor.Actor {
		return &worker{rec: rec, run: &Run{ctx: runCtx, system: r.system, attempt: rec.attempt}}
	})
	pid, err := ctx.SpawnNamed(props, "run/"+t.ID)
	if err != nil {
		panic(fmt.Errorf("bug: two tasks have the ID %s: %w", t.ID, err))
	}
	rec.pid = pid
	r.runs[pid.Id] = rec
}

// Receive handles the messages that belong to the runs, and reports whether the message was one.
// The owner must handle Stopping, too, so that one is reported as not handled.
func (r *Runs) Receive(ctx actor.Context) bool {
	r.self = ctx.Self()
	switch msg := ctx.Message().(type) {
	case succeeded:
		r.succeeded(ctx, msg)
	case restartDue:
		r.restartDue(msg)
	case *actor.Terminated:
		return r.terminated(ctx, msg)
	case *actor.Stopping:
		r.stopping = true
		r.CancelAll(ctx, ErrCancelled)
		return false
	default:
		return false
	}
	return true
}

func (r *Runs) succeeded(ctx actor.Context, msg succeeded) {
	rec := r.runs[ctx.Sender().GetId()]
	if rec == nil || rec.stopped {
		return
	}
	if rec.task.Succeeded != nil {
		rec.task.Succeeded(ctx, msg.Result)
	}
	rec.outcome = Done
	r.stop(ctx, rec, nil)
}

// terminated is the only way out of a run: success, an allowed failure, a cancel and the
// stop of the program all end here, so Ended is called once.
func (r *Runs) terminated(ctx actor.Context, msg *actor.Terminated) bool {
	rec := r.runs[msg.Who.Id]
	if rec == nil {
		return false
	}
	rec.cancel(nil)
	delete(r.runs, msg.Who.Id)
	rec.task.Ended(ctx, rec.outcome)
	return true
}

// HandleFailure makes the owner the supervision strategy of its runs. It implements
// actor.SupervisorStrategy.
func (r *Runs) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	rec := r.runs[child.Id]
	if rec == nil || rec.stopped {
		return // a Stop waits in its mailbox: a restart now would revive it
	}
	err, _ := asFailure(reason)
	rec.attempt++
	a := Attempt{Number: rec.attempt, Err: err, Final: rec.task.AllowFailure || rec.last}
	if rec.task.AllowFailure {
		rec.outcome = Allowed
	}
	if a.Final {
		rec.stopped = true
		rec.cancel(nil)
		sup.StopChildren(child)
	} else {
		a.In = rec.delays.NextBackOff()
		rec.sup, rec.rests = sup, true
		r.startTimer(rec, a.In)
		text := strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", " ⏎ ")), " ")
		r.system.Inspector.Publish(child, RunStatus{Attempt: a.Number, RetryAt: time.Now().Add(a.In), Error: text})
	}
	if rec.task.Failed != nil {
		rec.task.Failed(a)
	}
}

func (r *Runs) startTimer(rec *run, d time.Duration) {
	self, due := r.self, restartDue{rec.pid.Id, rec.attempt}
	rec.timer = time.AfterFunc(d, func() { r.system.Send(self, due) })
}

func (r *Runs) restartDue(msg restartDue) {
	rec := r.runs[msg.run]
	if rec == nil || rec.stopped || rec.attempt != msg.attempt || rec.timer == nil {
		return
	}
	rec.timer = nil
	r.restart(rec)
}

func (r *Runs) restart(rec *run) {
	rec.rests = false
	r.system.Inspector.Publish(rec.pid, RunStatus{Attempt: rec.attempt})
	rec.task.begins()
	rec.sup.RestartChildren(rec.pid)
}

// RetryNow ends the delays of failed tasks (F8). It returns how many waited. A timer that has fired
// already counts for itself: its message is in the mailbox.
func (r *Runs) RetryNow() (waiting int) {
	for _, path := range slices.Sorted(maps.Keys(r.runs)) {
		rec := r.runs[path]
		if rec.timer != nil && !rec.stopped && rec.timer.Stop() {
			waiting++
			r.restartDue(restartDue{rec.pid.Id, rec.attempt})
		}
	}
	return waiting
}

// LastAttempt ends a task after the attempt in progress, or at once if it waits for the next one.
func (r *Runs) LastAttempt(ctx actor.Context, id string) {
	if rec := r.runs[r.path(id)]; rec != nil {
		if rec.last = true; rec.rests {
			r.stop(ctx, rec, ErrCancelled)
		}
	}
}

// Cancel ends one task, if it is in progress.
func (r *Runs) Cancel(ctx actor.Context, id string) {
	if rec := r.runs[r.path(id)]; rec != nil {
		r.stop(ctx, rec, ErrCancelled)
	}
}

// CancelAll ends all tasks in progress: their contexts are done at once, their children
// go when their work has returned.
func (r *Runs) CancelAll(ctx actor.Context, cause error) {
	for _, path := range slices.Sorted(maps.Keys(r.runs)) {
		rec := r.runs[path]
		r.stop(ctx, rec, cause)
	}
}

func (r *Runs) stop(ctx actor.Context, rec *run, cause error) {
	if rec.stopped {
		return
	}
	rec.stopped = true
	rec.cancel(cause)
	if rec.timer != nil {
		rec.timer.Stop()
		rec.timer = nil
	}
	ctx.Stop(rec.pid)
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

// Tell sends a message to the actor with the given path.
func (r *Run) Tell(path string, message any) { r.system.Send(r.system.PID(path), message) }

// Turn asks for a turn of the dispatcher, and returns what waits for it. Goroutines of a run
// that work side by side begin with it, so that a test decides which is first.
func (r *Run) Turn() (wait func()) {
	if r.system.dispatcher == nil {
		return func() {}
	}
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
	run *Run
}

// Receive implements actor.Actor.
func (w *worker) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		w.run.self = ctx.Self()
		ctx.Send(ctx.Self(), begin{})
	case begin:
		if w.run.ctx.Err() != nil {
			return
		}
		result, err := w.rec.task.Work(w.run)
		if w.run.ctx.Err() != nil {
			return // cancelled: whatever it returned, the Stop is in the mailbox
		}
		Must(err)
		ctx.Request(ctx.Parent(), succeeded{result})
	}
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

// Failure is the typed failure of a task: a hook that exited with an error, a
// refused patch, a Helm action. A run raises it by [Must], the strategy of its owner
// restarts the run. Any other panic is a bug of ours and is treated as such.
type Failure struct{ Err error }

// Error implements error.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap gives access to the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Must ends the current message of an actor with a typed failure when err is not
// nil. It is the only place of the program that panics on purpose.
func Must(err error) {
	if err != nil {
		panic(&Failure{Err: err})
	}
}

// asFailure distinguishes a typed failure from a bug.
func asFailure(reason any) (err error, bug bool) {
	var failure *Failure
	if e, ok := reason.(error); ok {
		if errors.As(e, &failure) {
			return failure.Err, false
		}
		return fmt.Errorf("bug: %w", e), true
	}
	return fmt.Errorf("bug: %v", reason), true
}
