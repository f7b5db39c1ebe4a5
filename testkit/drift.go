package testkit

import (
	"context"
	"strconv"
	"strings"
	"time"

	"addon-operator/helm"
	"addon-operator/helm/dryrun"
	"addon-operator/messages"
	"addon-operator/values"
)

// Drift implements plan.Helm: of the objects that others changed, the field data.x differs. It
// reports false when the values are not the deployed ones: then the next run is an upgrade, and no
// drift can be told from it.
func (r *Releases) Drift(_ context.Context, m helm.Module) ([]dryrun.Change, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, exists := r.deployed[m.Name]
	if !exists || old.checksum != values.Checksum(m.Values) {
		return nil, false, nil
	}
	r.trace.Add("look for drift of %s", m.Name)
	var changes []dryrun.Change
	for _, o := range r.kinds.objectsOf(m.Name) {
		if r.changed[o] {
			data := func(x string) map[string]any { return map[string]any{"data": map[string]any{"x": x}} }
			changes = append(changes, dryrun.Change{Object: o, Verb: dryrun.Changed, Before: data("somebody's"), After: data("the chart's")})
		}
	}
	return changes, true, nil
}

// correct reverts drifted objects in a new revision; stubborn ones are changed again at once. It
// reports false when the run has none to correct. The caller holds the lock.
func (r *Releases) correct(m helm.Module, old deployed) (helm.Outcome, bool) {
	if len(m.Drifted) == 0 {
		return helm.Outcome{}, false
	}
	for _, o := range m.Drifted {
		if r.stubborn[o] > 0 {
			r.stubborn[o]--
		} else {
			delete(r.changed, o)
		}
	}
	old.revision++
	r.deployed[m.Name] = old
	r.trace.Add("helm corrects %s: %s", m.Name, namesOf(m.Drifted))
	return helm.Outcome{Action: helm.Upgraded, Revision: old.revision, Reason: "drift", Objects: r.kinds.objectsOf(m.Name)}, true
}

// stepDrift sets the mode before start.
func stepDrift(p *player, rest string) error {
	mode, period, _ := strings.Cut(rest, " ")
	p.drift = mode
	var err error
	p.driftPeriod, err = time.ParseDuration(period)
	return err
}

// stepChange changes an object of a release as another client, and again after N corrections.
func stepChange(p *player, rest string) error {
	name, times, again := strings.Cut(rest, " ")
	p.releases.mu.Lock()
	defer p.releases.mu.Unlock()
	p.releases.changed[objectNamed(name)] = true
	if !again {
		return nil
	}
	n, err := strconv.Atoi(times)
	p.releases.stubborn[objectNamed(name)] = n
	return err
}

// stepShowDrift prints what a module knows of its drift.
func stepShowDrift(p *player, name string) error {
	return p.Await(func() error {
		got, err := p.Operator.Ask(context.Background(), "module/"+name, messages.GetDrift{})
		if err != nil {
			return err
		}
		drift, _ := got.(messages.Drift)
		p.Trace.Add("drift of %s: mode %s, checked %v, error %q", name, drift.Mode, !drift.Checked.IsZero(), drift.Error)
		for _, o := range drift.Objects {
			for _, f := range o.Fields {
				p.Trace.Add("  %s %s: %v, the chart says %v", o.Object, f.Path, f.Found, f.Chart)
			}
		}
		return nil
	})
}
