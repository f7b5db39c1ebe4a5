package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"addon-operator/actors"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// Engine runs the operator of a play in a cluster in memory, for both kinds of scripts: package scenario has real
// hooks and a clock of its own, package testkit scripted hooks and virtual time. Its fields belong to the goroutine of
// the play. Operator may become nil while Await drives the play: in testkit an operator can be killed.
type Engine struct {
	Cluster  *Cluster
	Faults   *faults
	Trace    *Trace
	Operator *actors.Operator // nil while none runs
	Refused  error            // why the latest start was refused

	// World returns the dependencies of an operator that is about to start, except for those that the Engine has.
	World func() (actors.World, error)
	// Await calls f while the play continues, and returns the result of f.
	Await func(f func() error) error

	End context.CancelFunc // ends the lifetime of the operator that was started last, and what it writes
}

// NewEngine makes an engine with a cluster. The caller sets World, and Await if calls have to be driven.
func NewEngine(cluster *Cluster, trace *Trace) *Engine {
	return &Engine{Cluster: cluster, Faults: newFaults(), Trace: trace, Await: func(f func() error) error { return f() }}
}

// errNotRunning is what steps return that need the operator.
var errNotRunning = errors.New("the operator does not run, because its start was refused")

// Start makes an operator in its world, and calls begin, which starts it, with the
// lifetime of the operator. If it refuses to start, the reason is in Refused and Start returns no error: a script
// may expect it. Fields that the world leaves empty are set from the cluster.
func (e *Engine) Start(begin func(*actors.Operator, context.Context) error) error {
	if e.Operator != nil {
		return errors.New("the operator is already running")
	}
	world, err := e.World()
	if err != nil {
		return err
	}
	world.ConfigMap, world.Secret, world.Watch = e.Cluster.ConfigMap, e.Cluster.Secret, e.Cluster.WatchObjects
	if world.Objects == nil {
		world.Objects = e.Cluster.Client
	}
	lifetime, end := context.WithCancel(context.Background())
	world.WriteContext, e.End = lifetime, end
	operator := actors.New(world)
	e.Operator, e.Refused = operator, nil // before begin, so that Visit shows an operator that starts
	err = e.Await(func() error { return begin(operator, lifetime) })
	if err != nil && e.Operator == operator { // it was not killed meanwhile
		e.Operator, e.Refused = nil, err
		e.End()
	}
	return nil
}

// Stop stops the operator, if it runs. Its lifetime ends after the stop: until then it may write.
func (e *Engine) Stop(ctx context.Context) error {
	if e.Operator == nil {
		return nil
	}
	operator := e.Operator
	err := e.Await(func() error { return operator.Stop(ctx) })
	e.Operator = nil
	e.End()
	return err
}

// Visit calls see with the path of each actor and the status that it has published, parents first; with none
// while no operator runs.
func (e *Engine) Visit(see func(path string, status fmt.Stringer)) {
	if e.Operator != nil {
		for _, n := range e.Operator.Inspector().Nodes() {
			see(n.Path, n.Status)
		}
	}
}

// clock is the time of a scenario. It stands still until a step advances it; then
// everything that becomes due happens at its time, one instant after the other. The operator itself
// runs on real time, but nothing in it depends on that: its crontabs never fire by themselves, and
// its delays are longer than any test. The clock makes both happen by messages. All fields but now
// belong to the goroutine that does the steps.
type clock struct {
	given bool // by the test
	began time.Time
	now   atomic.Pointer[time.Time] // which hooks see
	ticks map[string]time.Time      // when crontabs fire next; zero: not looked at yet, or never
	tries map[string]time.Time      // when failed runs are retried, by path and attempt
}

// startOfTime is a Thursday. It is the same in each play, so that what hooks print about it is,
// too.
func startOfTime() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

func newClock(began time.Time) *clock {
	given := !began.IsZero()
	if !given {
		began = startOfTime()
	}
	c := &clock{given: given, began: began.UTC(), ticks: map[string]time.Time{}, tries: map[string]time.Time{}}
	c.set(c.began)
	return c
}

func (c *clock) set(t time.Time) { c.now.Store(&t) }

// environment has the time for a hook that runs now, if the test gives one: else hooks see the real time, as their
// authors expect of a hook that reads it. SOURCE_DATE_EPOCH is what many tools use in place of the time, if it is set.
func (c *clock) environment() []string {
	if !c.given {
		return nil
	}
	now := c.now.Load()
	return []string{"TEST_NOW=" + now.Format(time.RFC3339), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", now.Unix())}
}

// mostInstants is more than any scenario needs: a tick each second for nearly three hours. Each one
// takes at least some milliseconds of real time.
const mostInstants = 10_000

// advance lets time pass: crontabs fire, and failed tasks are retried. The operator becomes idle
// between two instants, so what an instant causes is done at its time: a run that fails then is
// retried five seconds later, if that is within the time.
func (p *play) advance(ctx context.Context, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || p.Operator == nil {
		return cmp.Or(err, errNotRunning)
	}
	end := p.clock.now.Load().Add(d)
	for range mostInstants {
		due := p.clock.next(p.recorder.schedules(), waiting(p.Engine))
		if due.IsZero() || due.After(end) {
			p.clock.set(end)
			return nil
		}
		p.clock.set(due)
		p.happen(due)
		if err := p.settle(ctx); err != nil {
			return fmt.Errorf("at %s: %w", due.Sub(p.clock.began), err)
		}
	}
	return fmt.Errorf("advance: more than %d things become due in %s; advance less time, or use tick", mostInstants, d)
}

// next is the first instant at which something is due; zero when nothing ever is. What is
// seen for the first time counts from now. For a failed run that is exact: the clock has not moved
// since it failed.
func (c *clock) next(schedules map[string]crontab, waiting map[string]supervisor.RunStatus) (first time.Time) {
	earlier := func(t time.Time) {
		if t.IsZero() {
			return // a crontab that no day fits, such as the 30th of February
		}
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	for crontab, at := range schedules {
		if c.ticks[crontab].IsZero() {
			c.ticks[crontab] = at.schedule.Next(*c.now.Load())
		}
		earlier(c.ticks[crontab])
	}
	// Only runs that still wait are kept. The attempt is in the key, because a run that has failed
	// again waits again, and longer.
	kept := map[string]time.Time{}
	for path, status := range waiting {
		key := fmt.Sprintf("%s %d", path, status.Attempt)
		if kept[key] = c.tries[key]; kept[key].IsZero() {
			kept[key] = c.now.Load().Add(delay(status.Attempt))
		}
		earlier(kept[key])
	}
	c.tries = kept
	return first
}

// delay is how long a task waits after so many attempts that failed (F7).
func delay(attempts int) (d time.Duration) {
	delays := supervisor.Backoff()
	for range attempts {
		d = delays.NextBackOff()
	}
	return d
}

// happen does what is due now. All failed tasks of an owner are retried together, because RetryNow
// is sent to the owner and names no task; one of them may therefore come before its time.
func (p *play) happen(now time.Time) {
	for key, due := range p.clock.tries {
		if !due.After(now) {
			p.retry(key)
		}
	}
	for crontab, at := range p.recorder.schedules() {
		if due := p.clock.ticks[crontab]; !due.IsZero() && !due.After(now) {
			p.Operator.Send("schedule", messages.ScheduleFired{Crontab: crontab})
			p.clock.ticks[crontab] = at.schedule.Next(now)
		}
	}
}

// retry retries the failed tasks of the owner of a run.
func (p *play) retry(run string) {
	if owner, _, ok := supervisor.SplitRun(strings.TrimPrefix(run, "operator/")); ok {
		p.Operator.Send(owner, messages.RetryNow{})
	}
}

// waiting are the runs that failed and wait for their next attempt, by the path of their actor.
func waiting(e *Engine) map[string]supervisor.RunStatus {
	found := map[string]supervisor.RunStatus{}
	e.Visit(func(path string, published fmt.Stringer) {
		if status, ok := published.(supervisor.RunStatus); ok && !status.RetryAt.IsZero() {
			found[path] = status
		}
	})
	return found
}

// dispatcher runs each mailbox that has work in a goroutine, as the default one, and
// counts them.
type dispatcher struct {
	busy  atomic.Int64  // mailboxes that have messages
	turns atomic.Uint64 // how often a mailbox got one while it had none
}

// Schedule implements actor.Dispatcher. It counts in the goroutine of the sender, before that goes
// on, so that there is no moment at which a message was sent and no mailbox is busy.
func (d *dispatcher) Schedule(turn func()) {
	d.busy.Add(1)
	d.turns.Add(1)
	go func() {
		defer d.busy.Add(-1)
		turn()
	}()
}

// Throughput implements actor.Dispatcher. It is that of the library's own dispatcher.
func (d *dispatcher) Throughput() int { return 300 }

// quiet is how long nothing must happen until runs that are in progress, but wait for
// something that a failed task holds up, count as idle. Without such runs, idle is seen at once, so
// only tests with a failure take so long. On a busy machine a run may just wait for a processor: so do the polls, of
// which there must have been so many.
const (
	quiet      = 500 * time.Millisecond
	quietPolls = 250
)

// settle returns when the operator has nothing to do until something happens:
// no mailbox has work, no hook, request or action of Helm is in progress, and every run waits for its next
// attempt. The operator has no counter for that, so settle polls: it must find all three at one
// moment, and that nothing has changed since the poll before. The error, after the limit for a
// step, names what is still in progress.
func (p *play) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.options.StepTimeout)
	defer cancel()
	activity := func() [2]uint64 { return [2]uint64{p.dispatcher.turns.Load(), p.recorder.done.Load()} } // changes whenever anything happens
	isIdle := func() bool {
		return p.dispatcher.busy.Load() == 0 && p.recorder.underWay.Load() == 0 && !p.Cluster.Server.Busy()
	}
	changed, polls := time.Now(), 0
	for last := activity(); ; polls++ {
		idle := isIdle()
		runs := len(working(p.Engine))
		now := activity()
		if now != last || !idle {
			last, changed, polls = now, time.Now(), 0
		}
		// A mailbox may have got work while runs were counted.
		still := func() bool { return isIdle() && activity() == now }
		if idle && now == last && (runs == 0 && time.Since(changed) > 0 && still() || time.Since(changed) > quiet && polls > quietPolls) {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the operator is not idle after %s:\n  %s", p.options.StepTimeout, strings.Join(working(p.Engine), "\n  "))
		}
	}
}

// working are the runs that are in progress, and the modules that are about to be healed: the
// healer waits a moment before it asks for a run, in which no mailbox has work.
func working(e *Engine) (list []string) {
	e.Visit(func(path string, published fmt.Stringer) {
		if healer, ok := published.(view.HealerStatus); ok {
			for _, module := range healer.Incomplete {
				list = append(list, path+": objects of "+module+" are absent")
			}
		}
		if !strings.Contains(path, "/run/") {
			return
		}
		status, _ := published.(supervisor.RunStatus)
		if status.RetryAt.IsZero() {
			list = append(list, fmt.Sprintf("%s: %s", path, status))
		}
	})
	return list
}

// Trace collects what happens in a play, in lines. Any goroutine may add one. Stamp is set before
// the first line.
type Trace struct {
	// Stamp completes a line, such as with the time. It may be nil.
	Stamp func(line string) string
	// Dead: the operator was killed. Its remaining goroutines add no lines.
	Dead atomic.Bool

	mu    sync.Mutex
	lines []string
}

// Add appends a line.
func (t *Trace) Add(format string, args ...any) { t.AddLine(fmt.Sprintf(format, args...)) }

// AddLine appends a line as it is, but for the stamp.
func (t *Trace) AddLine(line string) {
	if t.Dead.Load() {
		return
	}
	if t.Stamp != nil {
		line = t.Stamp(line)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

// String is the whole trace so far.
func (t *Trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// Logger returns a logger whose records of Info and above become lines. Format makes a line
// of a record and all its attributes; "" is none.
func (t *Trace) Logger(format func(r slog.Record, attrs []slog.Attr) string) *slog.Logger {
	return slog.New(handler{trace: t, format: format})
}

type handler struct {
	trace  *Trace
	format func(slog.Record, []slog.Attr) string
	attrs  []slog.Attr
}

// Enabled implements slog.Handler.
func (handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (h handler) Handle(_ context.Context, r slog.Record) error {
	all := slices.Clip(h.attrs) // other records of this logger append to it, too
	r.Attrs(func(a slog.Attr) bool {
		all = append(all, a)
		return true
	})
	if line := h.format(r, all); line != "" {
		h.trace.AddLine(line)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = slices.Concat(h.attrs, attrs)
	return h
}

// WithGroup implements slog.Handler; the operator uses no groups.
func (h handler) WithGroup(string) slog.Handler { return h }

// logLine is a line of the log as authors of modules see it.
func logLine(r slog.Record, attrs []slog.Attr) string {
	line := r.Level.String() + " " + r.Message
	for _, a := range attrs {
		switch a.Key {
		case "took", "task": // differ from run to run and mean nothing here
		default:
			line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		}
	}
	return line
}
