package actors

import (
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/plan"
	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/helm/dryrun"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// Drift is what others changed of the objects that a chart deployed. A module looks for
// it a moment after each of its runs and then from time to time, while it rests; the looks
// stand in a queue of their own, one at a time. What is found is reported, or put back by
// a run of the module, with drift as its cause.
//
//	ran -moment-> check -clean-> check after a period
//	              check -drift, report-> check after a period
//	              check -drift, correct-> run -> ran
//
// Whoever writes the same fields again after each correction is no accident but a fight:
// corrections are slowed down, up to the period.

const (
	// driftQueue holds the looks for drift of all modules.
	driftQueue = hooks.ReservedQueues + "drift"
	// driftMoment is how long after a run the first look comes: what controllers and
	// webhooks do to new objects is done by then.
	driftMoment = 5 * time.Second
	// driftFirstDelay is that of the first correction that is slowed down.
	driftFirstDelay = 5 * time.Second
)

// driftState is what a module knows of its drift.
type driftState struct {
	number  int    // of the timer that counts
	task    string // the look in progress
	checked time.Time
	failed  string // why the last look failed
	found   []dryrun.Change
	told    []view.DriftedObject // without values, as it was reported
	// correcting are the objects that the next run puts back; cause is that of the last
	// correction, which was at corrected, until objects have stayed as they are for a while.
	correcting []helm.Object
	cause      *messages.Cause
	corrected  time.Time
}

// driftDue is sent by a timer.
type driftDue struct{ number int }

func (p *program) seeksDrift() bool {
	return p.Plans != nil && (p.Drift == messages.DriftReport || p.Drift == messages.DriftCorrect)
}

// driftDelay spreads the looks of modules over a tenth of the time, for each module always
// in the same way.
func driftDelay(module string, d time.Duration) time.Duration {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(module)) // a hash takes everything
	const steps = 1000
	return d + d/10*time.Duration(sum.Sum32()%steps)/steps
}

// lookLater begins to wait for the next look at a module.
func (d *driftState) lookLater(p *program, module string, in time.Duration) {
	if !p.seeksDrift() {
		return
	}
	d.number++
	due, to := driftDue{d.number}, p.owner(module)
	time.AfterFunc(driftDelay(module, in), func() { p.Send(to, due) })
}

// stopDrift ends the look in progress and the waiting for the next one.
func (m *module) stopDrift(ctx actor.Context) {
	m.drift.number++
	if m.drift.task != "" {
		m.owner.tasks.runs.Cancel(ctx, m.drift.task)
	}
}

// forgetDrift is called when the objects have no owner any more.
func (m *module) forgetDrift(ctx actor.Context) {
	m.stopDrift(ctx)
	m.drift = driftState{number: m.drift.number, task: m.drift.task}
	m.program.Metrics.Modules.ForgetDrift(m.name)
}

// driftDue queues a look. A module that runs, or will, looks after that.
func (m *module) driftDue(ctx actor.Context, msg driftDue) {
	if msg.number != m.drift.number || !m.mayDrift() {
		return
	}
	t := m.program.task(m.name, messages.CheckDrift{}, messages.Cause{Activation: messages.ByDrift})
	t.Queue, t.AllowFailure = driftQueue, true
	m.program.enqueue(ctx, false, t)
}

func (m *module) mayDrift() bool {
	return m.life.phase == view.Ready && m.maintenance == "" && m.last.Action != "" && len(m.owner.tasks.alone)+len(m.owner.tasks.next) == 0
}

func (m *module) executeDrift(ctx actor.Context, a assignment, j work.ModuleJob) {
	if !m.mayDrift() {
		refuse(ctx, a.Task)
		return
	}
	m.drift.task = a.Task.ID
	a.work = func(run *supervisor.Run) (any, error) { return j.SeekDrift(run) }
	a.succeeded = m.driftLooked
	a.failed = func(at supervisor.Attempt) {
		m.drift.failed = at.Err.Error()
		m.drift.lookLater(m.program, m.name, m.program.DriftPeriod)
	}
	m.owner.tasks.start(ctx, m.unlessGone(a))
}

// driftLooked takes over what a look has found.
func (m *module) driftLooked(ctx actor.Context, result any) {
	found, _ := result.(work.DriftFound)
	if !m.mayDrift() || !found.Known {
		m.drift.lookLater(m.program, m.name, m.program.DriftPeriod)
		return
	}
	d := &m.drift
	d.checked, d.failed, d.found = time.Now(), "", found.Changes
	m.program.Metrics.Modules.Drifted(m.name, len(found.Changes))
	told := plan.Drifted(found.Changes)
	d.report(m.log, m.program.Drift, told)
	switch {
	case len(told) == 0:
		if time.Since(d.corrected) >= m.program.DriftPeriod { // a look right after it proves nothing
			d.cause = nil
		}
	case m.program.Drift == messages.DriftCorrect:
		m.correctDrift(ctx)
		return
	}
	m.drift.lookLater(m.program, m.name, m.program.DriftPeriod)
}

// report logs what was not logged before.
func (d *driftState) report(log *slog.Logger, mode string, told []view.DriftedObject) {
	same := func(a, b view.DriftedObject) bool {
		return a.Object == b.Object && slices.Equal(a.Fields, b.Fields)
	}
	for _, object := range told {
		if mode == messages.DriftCorrect || !slices.ContainsFunc(d.told, func(old view.DriftedObject) bool { return same(old, object) }) {
			log.Warn("an object of the module was changed by others", "object", object.Object, "fields", object.Fields, "drift", mode)
		}
	}
	if len(told) == 0 && len(d.told) > 0 {
		log.Info("the objects of the module are as it deployed them again")
	}
	d.told = told
}

// correctDrift queues the run that puts back what was found. In a fight it waits, longer
// each time, and at most for a period.
func (m *module) correctDrift(ctx actor.Context) {
	d := &m.drift
	d.correcting = nil
	for _, c := range d.found {
		d.correcting = append(d.correcting, c.Object)
	}
	cause := messages.Cause{Activation: messages.ByDrift, Detail: describeDrift(d.told)}
	if d.cause != nil {
		cause = messages.By(cause.Activation, cause.Detail, *d.cause)
	}
	d.cause, d.corrected = &cause, time.Now()
	m.program.Metrics.Modules.DriftCorrected(m.name)
	t := m.program.task(m.name, messages.RunModule{}, cause)
	delay := fightDelay(cause, m.program.DriftPeriod)
	if delay == 0 {
		m.program.enqueue(ctx, false, t)
		return
	}
	m.program.Metrics.Converge.Looped(cause)
	m.log.Warn("fields are changed again after each correction: corrections are slowed down; metadata.managedFields of the object names the writer", "in", delay, "drift", cause.Detail)
	m.delayed.queue(m.program, t, delay)
}

// fightDelay is how long a correction waits that was needed again and again.
func fightDelay(c messages.Cause, longest time.Duration) time.Duration {
	over := turns(c) - allowedTurns
	if over <= 0 {
		return 0
	}
	d := driftFirstDelay
	for range over - 1 {
		if d *= 2; d >= longest {
			return longest
		}
	}
	return min(d, longest)
}

func describeDrift(told []view.DriftedObject) string {
	if len(told) == 1 {
		return told[0].String()
	}
	return fmt.Sprintf("%s and %d more objects", told[0], len(told)-1)
}

// answer answers GetDrift.
func (d *driftState) answer(p *program, secrets bool) messages.Drift {
	answer := messages.Drift{Mode: p.Drift, Checked: d.checked, Error: d.failed, Objects: plan.Drift(d.found, p.Secrets.Hider(), secrets)}
	if answer.Mode == "" {
		answer.Mode = messages.DriftOff
	}
	return answer
}
