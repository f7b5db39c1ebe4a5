package testkit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"addon-operator/actors/scenario"
	"addon-operator/helm"
	"addon-operator/values"
)

// Releases keeps releases in memory. Like the real one it does nothing when nothing changed; here
// the values stand for the rendered manifest. It outlives the operator, as the records of releases
// do. Runs call it in parallel, steps in between. The lock guards all fields below it that change
// after the first start; it is not held while an action takes its time, nor while the operator is
// notified, which may call back.
type Releases struct {
	trace  *scenario.Trace
	sched  *scheduler // nil: each goroutine goes on when it wakes
	faults *scenario.Faults

	mu       sync.Mutex
	deployed map[string]deployed  // by name, which is that of the module
	watched  watched              // healing.go
	kinds    kindsOf              // needs.go
	stuck    map[string]bool      // releases whose installs and upgrades fail
	drops    map[string]bool      // releases whose next upgrade would delete data
	changed  map[helm.Object]bool // drift.go
	stubborn map[helm.Object]int  // corrections that are undone at once

	jitter   jitter
	observer *observer
	cluster  *scenario.Cluster        // nil: releases have no objects in it
	deploys  map[string]bool          // releases that have their first object in the cluster
	chance   map[string]bool          // releases of charts that render by chance
	paced    map[string]time.Duration // how long the next upgrade of a release must wait (chance.go)
	upgrades upgrades                 // chance.go
	hooks    map[string]time.Duration // how long Helm hooks take (hookwait.go)
	jobs     map[string]*hookJob      // the latest Job of each, by RELEASE or RELEASE-delete
	// hooksChanged is closed, and replaced, when hooks take another time.
	hooksChanged chan struct{}
}

// deployed is the latest revision of a release.
type deployed struct {
	revision int
	checksum string // of the values; "" after another client has changed the records, which no values have
	values   string // as JSON
	foreign  bool   // no operator has installed it
}

// NewReleases makes an empty store.
func NewReleases(trace *scenario.Trace) *Releases {
	r := &Releases{
		trace: trace, deployed: map[string]deployed{},
		stuck: map[string]bool{}, drops: map[string]bool{}, changed: map[helm.Object]bool{}, stubborn: map[helm.Object]int{}, deploys: map[string]bool{}, chance: map[string]bool{}, paced: map[string]time.Duration{}, upgrades: upgrades{latest: map[string][]time.Time{}}, hooks: map[string]time.Duration{}, jobs: map[string]*hookJob{}, hooksChanged: make(chan struct{}),
		observer: newObserver(),
	}
	r.watched = watched{releases: r, absent: map[helm.Object]bool{}, unhealthy: map[helm.Object]helm.Health{}, reported: map[helm.Object]helm.Health{}}
	r.kinds = kindsOf{r, map[string][]string{}, map[string][]string{}}
	return r
}

// Place implements work.Releases: here a name is enough.
func (r *Releases) Place(map[string]string) {}

// begin lets an action take its time, and returns the error with which it fails, if it must. The
// action has changed nothing by then. A dead operator's action ends here, however it was woken.
func (r *Releases) begin(ctx context.Context, name string) error {
	r.mu.Lock()
	d := r.faults.Lasts(scenario.FaultOfHelm+name) + r.jitter.next(scenario.FaultOfHelm+name)
	r.mu.Unlock()
	err := error(nil)
	select {
	case <-time.After(d):
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.sched.await("helm " + name) // other goroutines may wake at the same instant
	if r.faults.Died() {
		err = scenario.ErrDead
	}
	if err != nil {
		return err
	}
	if r.faults.Take(scenario.FaultOfHelm+name, 1) > 0 {
		return errors.New("the script makes it fail")
	}
	if r.faults.Take(faultOfAway+name, 1) > 0 {
		return &helm.Error{Kind: helm.Away, Release: name, Err: errors.New("APIService v1.things is not available")}
	}
	return nil
}

// Apply implements work.Releases.
func (r *Releases) Apply(ctx context.Context, m helm.Module) (outcome helm.Outcome, err error) {
	leave := r.observer.enter("helm upgrade of "+m.Name, "release "+m.Name, "module "+m.Name)
	defer func() { leave(event{module: m.Name, what: "install", ok: err == nil}) }()
	if outcome, err = r.apply(ctx, m); err == nil {
		r.watched.report(outcome.Objects...)
	}
	return outcome, err
}

// apply is what the real client does, in its order: fail as the script says, wait for the Helm hook
// of a changed release, then install or upgrade. When the values are the deployed ones, only
// objects that are absent or have drifted are written.
func (r *Releases) apply(ctx context.Context, m helm.Module) (helm.Outcome, error) {
	if err := r.begin(ctx, m.Name); err != nil {
		r.trace.Add("helm fails for %s", m.Name)
		return helm.Outcome{}, err
	}
	sum := values.Checksum(m.Values)
	r.mu.Lock()
	last, there := r.deployed[m.Name]
	r.mu.Unlock()
	if !there || last.checksum != sum {
		if err := r.awaitHook(ctx, m.Name, m.Name, sum, m.HookWaits); err != nil {
			return helm.Outcome{}, err
		}
	}
	r.mu.Lock() // a step may have changed the release during the wait, so it is looked up again
	defer r.mu.Unlock()
	if r.stuck[m.Name] {
		r.trace.Add("helm fails for %s", m.Name)
		return helm.Outcome{}, errors.New("it fails permanently")
	}
	if err := r.kinds.unknownKind(m.Name); err != nil {
		r.trace.Add("helm fails for %s: %s", m.Name, err)
		return helm.Outcome{}, err
	}
	old, exists := r.deployed[m.Name]
	if exists && old.checksum == sum {
		if outcome, healed := r.heal(m, old); healed {
			return outcome, nil
		}
		if outcome, corrected := r.correct(m, old); corrected {
			return outcome, nil
		}
		return helm.Outcome{Action: helm.Skipped, Revision: old.revision, Objects: r.kinds.objectsOf(m.Name)}, nil
	}
	if hold := holdOf(m, exists && r.drops[m.Name]); hold != nil {
		r.trace.Add("helm holds the upgrade of %s", m.Name)
		has := r.kinds.objectsOf(m.Name)
		return helm.Outcome{Action: helm.Held, Reason: hold.Why, Revision: old.revision, Objects: has, Held: hold}, nil
	}
	delete(r.drops, m.Name)
	if outcome, paced := r.pace(m.Name, old); paced {
		return outcome, nil
	}
	for _, o := range r.kinds.objectsOf(m.Name) {
		delete(r.watched.absent, o)
	}
	text, err := values.JSON(m.Values)
	if err != nil {
		return helm.Outcome{}, err
	}
	now := deployed{revision: old.revision + 1, checksum: sum, values: string(text)}
	r.deployed[m.Name] = now
	action := helm.Upgraded
	if !exists {
		action = helm.Installed
	}
	r.trace.Add("helm %s %s %s", action, m.Name, text)
	r.upgrades.count(m.Name, string(text), r.observer)
	outcome := helm.Outcome{Action: action, Revision: now.revision, Reason: "values", Objects: r.kinds.objectsOf(m.Name)}
	return outcome, r.deploy(m, &outcome)
}

// holdOf holds the upgrade of a release if it drops data (P1) and no person has allowed that.
func holdOf(m helm.Module, drops bool) *helm.Hold {
	h := &helm.Hold{
		Objects: []helm.Object{objectNamed(m.Name + "-b")}, Why: "their data would be deleted with them",
		Confirm: m.Name + ":ConfigMap/default/" + m.Name + "-b",
	}
	if !drops || m.Allowed == h.Confirm {
		return nil
	}
	return h
}

// Uninstall implements work.Releases.
func (r *Releases) Uninstall(ctx context.Context, m helm.Module) (existed bool, err error) {
	name := m.Name
	leave := r.observer.enter("helm uninstall of "+name, "release "+name, "module "+name)
	defer func() { leave(event{module: name, what: "uninstall", ok: err == nil}) }()
	r.mu.Lock()
	last, exists := r.deployed[name]
	r.mu.Unlock()
	if exists {
		if err := r.awaitHook(ctx, name, name+"-delete", fmt.Sprint(last.revision), m.HookWaits); err != nil {
			return false, err
		}
	}
	return r.uninstall(ctx, name)
}

// Purge implements work.Releases.
func (r *Releases) Purge(ctx context.Context, name string, _ helm.Purging) (existed bool, err error) {
	if r.isForeign(name) {
		r.trace.Add("helm leaves %s alone", name)
		return false, nil
	}
	leave := r.observer.enter("helm purge of "+name, "release "+name, "module "+name)
	defer func() { leave(event{module: name, what: "uninstall", ok: err == nil}) }()
	return r.uninstall(ctx, name)
}

// isForeign reports whether a person has installed the release; no purge removes it then.
func (r *Releases) isForeign(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deployed[name].foreign
}

// Ours implements work.Releases.
func (r *Releases) Ours(_ context.Context, releases []string) (ours []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range releases {
		if d, exists := r.deployed[name]; exists && !d.foreign {
			ours = append(ours, name)
		}
	}
	return ours, nil
}

// uninstall removes a release, its object in the cluster, and what cannot be without what it
// brings.
func (r *Releases) uninstall(ctx context.Context, name string) (bool, error) {
	if err := r.begin(ctx, name); err != nil {
		r.trace.Add("helm fails for %s", name)
		return false, err
	}
	r.mu.Lock()
	_, existed := r.deployed[name]
	notify, err := r.kinds.loseAll(name), r.undeploy(name)
	delete(r.deployed, name)
	delete(r.jobs, name)
	delete(r.jobs, name+"-delete")
	r.trace.Add("helm uninstall %s", name)
	r.mu.Unlock()
	notify()
	return existed, err
}

// Releases implements work.Releases.
func (r *Releases) Releases(context.Context) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.deployed)), nil
}

// describe lists the releases for a trace.
func (r *Releases) describe() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := ""
	for _, name := range slices.Sorted(maps.Keys(r.deployed)) {
		text += fmt.Sprintf(" %s.v%d", name, r.deployed[name].revision)
	}
	return text
}
