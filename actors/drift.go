package actors

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/plan"
	"addon-operator/helm"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

const (
	// driftMoment is how long after a run the first look comes: what controllers and
	// webhooks do to new objects is done by then.
	driftMoment = 5 * time.Second
	// driftPeriod is between two looks at a module: a look costs as many requests as the module has objects, and what
	// matters at once is noticed by watches.
	driftPeriod = 5 * time.Minute
)

// drift is what a module knows of changes that others have made to the objects that its chart deployed. It looks for
// them a moment after each run and then from time to time, while it rests; of all modules one at a
// time. What is found is reported, or corrected by a run of the module, with drift as its cause.
//
//	ran -moment-> check -clean-> check after a period
//	              check -drift, report-> check after a period
//	              check -drift, correct-> run -period-> check
//
// So whoever changes the same fields again after each correction is corrected once a period.
type drift struct {
	number  int // of the timer that counts, or of the look: one with another number is out of date
	checked time.Time
	failed  string // why the last look failed
	found   Drift
	named   []string // the objects and their fields, without values
}

func (m *module) driftPeriod() time.Duration { return cmp.Or(m.program.DriftPeriod, driftPeriod) }

// driftDue is sent by a timer.
type driftDue struct{ number int }

// lookForDrift begins to wait for the next look at a module. It waits up to a tenth longer, each module always the
// same part, so that the looks of all modules are spread over time, and come in an order that is known.
func (m *module) lookForDrift(in time.Duration) {
	if m.program.Plans == nil || m.program.Drift != messages.DriftReport && m.program.Drift != messages.DriftCorrect {
		return
	}
	m.drift.number++
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(m.name)) // a hash takes everything
	const steps = 1000
	in += in / 10 * time.Duration(sum.Sum32()%steps) / steps
	due, to := driftDue{m.drift.number}, m.program.Owner(m.name)
	time.AfterFunc(in, func() { m.program.Send(to, due) })
}

// forgetDrift is called when the objects have no owner any more.
func (m *module) forgetDrift() { m.drift = drift{number: m.drift.number + 1} }

// driftDue looks for drift, and waits for the next look. A module that runs, or will, looks after that. A look renders
// with the present values: if a run begins meanwhile, or is due because the values are not those of the last one, what
// is found is about the past, and dropped.
func (m *module) driftDue(ctx actor.Context, msg driftDue) {
	if msg.number != m.drift.number || !m.rests() {
		return
	}
	m.lookForDrift(m.driftPeriod())
	p, number, known := m.program, m.drift.number, m.known()
	m.Runs.Start(ctx, supervisor.Task{
		ID: fmt.Sprint("drift-", number), AllowFailure: true, Ended: func(actor.Context, bool) {},
		Work: func(run *supervisor.Run) (any, error) {
			run.Step("wait until other modules were looked at")
			if err := p.Looks.Acquire(run.Context(), 1); err != nil {
				return nil, err
			}
			defer p.Looks.Release(1)
			run.Step("look for drift")
			merged, _ := known.Values()
			changes, settled, err := p.Plans.Drift(run.Context(), plan.HelmModule(known.Module, merged))
			if !settled {
				return nil, err
			}
			return Drift(changes), err
		},
		Succeeded: func(ctx actor.Context, result any) {
			if found, ok := result.(Drift); ok && number == m.drift.number {
				m.driftFound(ctx, found)
			}
		},
		Failed: func(at supervisor.Attempt) {
			m.drift.failed = at.Err.Error()
			m.log.Warn("objects of the module cannot be compared with its chart, will retry", "err", at.Err, "in", m.driftPeriod())
		},
	})
}

// driftFound takes over the result of a look, logs what was not logged before, and queues the run that puts it back,
// if there is to be one.
func (m *module) driftFound(ctx actor.Context, found Drift) {
	now, before := found.Named(), m.drift.named
	m.drift = drift{number: m.drift.number, checked: time.Now(), found: found, named: now}
	if len(now) == 0 && len(before) > 0 {
		m.log.Info("the objects of the module are again as it deployed them")
	}
	if !slices.Equal(now, before) {
		for _, object := range now {
			m.log.Warn("an object of the module was changed by another client", "object", object, "drift", m.program.Drift)
		}
	}
	if len(m.drifted()) > 0 {
		m.program.Metrics.DriftCorrected.WithLabelValues(m.name).Inc()
		cause := messages.Cause{Activation: messages.ByDrift, Detail: messages.Few(1, now)}
		m.program.Enqueue(ctx, false, m.program.NewTask(m.name, messages.RunModule{}, cause))
	}
}

// drifted are the objects that the next run corrects.
func (m *module) drifted() (objects []helm.Object) {
	if m.program.Drift != messages.DriftCorrect {
		return nil
	}
	for _, c := range m.drift.found {
		objects = append(objects, c.Object)
	}
	return objects
}

// driftCorrected waits for the next look after a run, which has put back what was found, if it was to.
func (m *module) driftCorrected() {
	in := driftMoment
	if len(m.drifted()) > 0 {
		m.drift.found, m.drift.named, in = nil, nil, m.driftPeriod()
	}
	m.lookForDrift(in)
}

// driftShown is what pages show of the last check.
func (m *module) driftShown() func(secrets bool) messages.Drift {
	found, drift := m.drift.found, messages.Drift{Checked: m.drift.checked, Error: m.drift.failed}
	drift.Mode = cmp.Or(m.program.Drift, messages.DriftOff)
	hider := m.program.Secrets.Hider
	return func(secrets bool) messages.Drift {
		shown := drift // several pages may ask at the same time
		shown.Objects = found.Shown(hider(), secrets)
		return shown
	}
}

// Drift is what others changed of the objects of a module: Before is what was found in the cluster,
// After what the chart says. It holds the values of Secrets, so it leaves its owner only as what
// Named and Shown make of it.
type Drift []helm.Change

// Named are the objects and their fields, without values, for what people see who may not read the
// objects, such as logs.
func (d Drift) Named() (all []string) {
	for _, c := range d {
		all = append(all, c.Object.String()+": "+messages.Few(5, c.Paths()))
	}
	return all
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
