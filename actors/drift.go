package actors

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"log/slog"
	"reflect"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/plan"
	"addon-operator/helm"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

const (
	// driftQueue holds the looks for drift of all modules.
	driftQueue = hooks.ReservedQueues + "drift"
	// driftMoment is how long after a run the first look comes: what controllers and
	// webhooks do to new objects is done by then.
	driftMoment = 5 * time.Second
	// driftPeriod is between two looks at a module: a look costs as many requests as the module has objects, and what
	// matters at once is noticed by watches.
	driftPeriod = 5 * time.Minute
)

// drift is the part of a module that looks for what others changed of the objects that its chart
// deployed. It looks a moment after each run and then from time to time, while the module rests;
// looks of all modules share a queue, one at a time. What is found is reported, or corrected by a
// run of the module, with drift as its cause.
//
//	ran -moment-> check -clean-> check after a period
//	              check -drift, report-> check after a period
//	              check -drift, correct-> run -> ran
//
// If another client changes the same fields again after each correction, corrections slow down, up
// to the period.
type drift struct {
	program *program
	name    string // of the module
	log     *slog.Logger
	module  *module

	number int    // of the timer that counts; one with another number is out of date
	task   string // the ID of the look in progress
	driftFound
}

func (d *drift) period() time.Duration { return cmp.Or(d.program.DriftPeriod, driftPeriod) }

// driftFound is what is forgotten when the module no longer owns the objects.
type driftFound struct {
	checked time.Time
	failed  string // why the last look failed
	found   DriftFound
	told    []view.DriftedObject // without values, as it was reported
	// correcting are the objects that the next run corrects. cause is that of the last correction,
	// at the time corrected; it is nil again after the objects have stayed as they are for a
	// period. The next correction appends to it, so repeated corrections of contested fields form a chain.
	correcting []helm.Object
	cause      *messages.Cause
	corrected  time.Time
}

// driftDue is sent by a timer.
type driftDue struct{ number int }

// driftDelay adds up to a tenth to d, for each module always the same part, so that the looks of
// all modules are spread over time, and come in an order that is known.
func driftDelay(module string, d time.Duration) time.Duration {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(module)) // a hash takes everything
	const steps = 1000
	return d + d/10*time.Duration(sum.Sum32()%steps)/steps
}

// lookLater begins to wait for the next look at a module.
func (d *drift) lookLater(in time.Duration) {
	if d.program.Plans == nil || d.program.Drift != messages.DriftReport && d.program.Drift != messages.DriftCorrect {
		return
	}
	d.number++
	due, to := driftDue{d.number}, d.program.Owner(d.name)
	time.AfterFunc(driftDelay(d.name, in), func() { d.program.Send(to, due) })
}

// stop ends the look in progress and the waiting for the next one.
func (d *drift) stop(ctx actor.Context, runs *supervisor.Runs) {
	d.number++
	if d.task != "" {
		runs.Cancel(ctx, d.task)
	}
}

// forget is called when the objects have no owner any more.
func (d *drift) forget(ctx actor.Context, runs *supervisor.Runs) {
	d.stop(ctx, runs)
	d.driftFound = driftFound{}
}

// begin queues a look. A module that runs, or will, looks after that.
func (d *drift) begin(ctx actor.Context, msg driftDue) {
	if msg.number != d.number || !d.module.rests() {
		return
	}
	t := d.program.NewTask(d.name, messages.CheckDrift{}, messages.Cause{Activation: messages.ByDrift})
	t.Queue, t.AllowFailure = driftQueue, true
	d.program.Enqueue(ctx, false, t)
}

// looked takes over the result of a look. If a run has begun meanwhile, the result is about the
// past and is dropped.
func (d *drift) looked(ctx actor.Context, result any) {
	found, _ := result.(DriftFound)
	if !d.module.rests() || !found.Known {
		d.lookLater(d.period())
		return
	}
	d.checked, d.failed, d.found = time.Now(), "", found
	told := found.Changes.Named()
	d.report(told)
	if len(told) > 0 && d.program.Drift == messages.DriftCorrect {
		d.correct(ctx)
		return
	}
	if len(told) == 0 && time.Since(d.corrected) >= d.period() { // a look right after it proves nothing
		d.cause = nil
	}
	d.lookLater(d.period())
}

// report logs what was not logged before.
func (d *drift) report(told []view.DriftedObject) {
	if len(told) == 0 && len(d.told) > 0 {
		d.log.Info("the objects of the module are again as it deployed them")
	}
	if d.program.Drift == messages.DriftCorrect || !reflect.DeepEqual(told, d.told) {
		for _, object := range told {
			d.log.Warn("an object of the module was changed by another client", "object", object.Object, "fields", object.Fields, "drift", d.program.Drift)
		}
	}
	d.told = told
}

// correct queues the run that puts back what was found. If the fields are
// contested, it waits, longer each time, and at most for a period.
func (d *drift) correct(ctx actor.Context) {
	d.correcting = nil
	for _, c := range d.found.Changes {
		d.correcting = append(d.correcting, c.Object)
	}
	var names []string
	for _, object := range d.told {
		names = append(names, object.String())
	}
	cause := messages.Cause{Activation: messages.ByDrift, Detail: messages.Few(1, names)}
	if d.cause != nil {
		cause = messages.By(cause.Activation, cause.Detail, *d.cause)
	}
	d.cause, d.corrected = &cause, time.Now()
	d.program.Metrics.DriftCorrected.WithLabelValues(d.name).Inc()
	t := d.program.NewTask(d.name, messages.RunModule{}, cause)
	delay := slowedDown(turns(cause), d.period())
	if delay == 0 {
		d.program.Enqueue(ctx, false, t)
		return
	}
	d.program.Metrics.Loops.WithLabelValues(activation(cause)).Inc()
	d.log.Warn("fields are changed again after each correction: corrections are slowed down; metadata.managedFields of the object names the writer", "in", delay, "drift", cause.Detail)
	d.module.runLater(t, delay)
}

// shown is what pages show of the last check.
func (d *drift) shown() func(secrets bool) messages.Drift {
	found, drift := d.found.Changes, messages.Drift{Mode: cmp.Or(d.program.Drift, messages.DriftOff), Checked: d.checked, Error: d.failed}
	hider := d.program.Secrets.Hider
	return func(secrets bool) messages.Drift {
		shown := drift // several pages may ask at the same time
		shown.Objects = found.Shown(hider(), secrets)
		return shown
	}
}

// look makes a task a look.
func (d *drift) look(a *assignment, j Job) *assignment {
	d.task = a.Task.ID
	a.work = func(run *supervisor.Run) (any, error) { return j.SeekDrift(run) }
	a.succeeded = d.looked
	a.failed = func(at supervisor.Attempt) {
		d.failed = at.Err.Error()
		d.lookLater(d.period())
	}
	return a
}

// DriftFound is the result of a look. Known is false when the module must run anyway: what that run
// changes is no drift, and nothing is reported.
type DriftFound struct {
	Changes Drift
	Known   bool
}

// SeekDrift is the work of a CheckDrift task. It renders with the present values: when they differ
// from those of the last run, an upgrade is due.
func (j Job) SeekDrift(run *supervisor.Run) (DriftFound, error) {
	run.Step("look for drift")
	merged, _ := j.Known.Values()
	changes, known, err := j.Plans.Drift(run.Context(), plan.HelmModule(j.Known.Module, merged))
	if err != nil {
		return DriftFound{}, fmt.Errorf("look for drift: %w", err)
	}
	return DriftFound{changes, known}, nil
}

// Drift is what others changed of the objects of a module: Before is what was found in the cluster,
// After what the chart says. It holds the values of Secrets, so it leaves its owner only as what
// Named and Shown make of it.
type Drift []helm.Change

// Named are the objects and their fields, without values, for what people see who may not read the
// objects, such as statuses.
func (d Drift) Named() []view.DriftedObject {
	var out []view.DriftedObject
	for _, c := range d {
		out = append(out, view.DriftedObject{Object: c.Object.String(), Fields: c.Paths()})
	}
	return out
}

// Shown are the objects with what was found and what the chart says. Secrets are hidden, unless
// they were asked for. It is never nil, so that JSON has a list.
func (d Drift) Shown(hider *values.Hider, secrets bool) []messages.ObjectDrift {
	out := []messages.ObjectDrift{}
	for _, c := range d {
		c.Mask = hider.Object
		object := messages.ObjectDrift{Object: c.Object.String()}
		for _, f := range c.Fields(secrets) {
			object.Fields = append(object.Fields, messages.FieldDrift{Path: f.Path, Found: f.Before, Chart: f.After})
		}
		out = append(out, object)
	}
	return out
}
