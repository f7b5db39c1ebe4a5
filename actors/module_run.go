package actors

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// moduleJob is a job that takes a module through its life: a run, a delete, a look for
// drift. Its owner is the module.
type moduleJob struct {
	job
	module addons.Module // as it lay on disk when the task began
}

// moduleRan is the result of a module run.
type moduleRan struct {
	release   helm.Outcome
	untouched bool   // Helm was left out: the module is under maintenance (H15)
	changed   bool   // afterHelm hooks changed the values (G5.4), and not another writer meanwhile
	trace     string // its span
}

// runModule is the work of a RunModule task (G5). A retry of the start-up execution
// begins with onStartup again, later executions begin with beforeHelm; Synchronization
// runs that succeeded are not repeated (X13).
func (j moduleJob) runModule(run *supervisor.Run) (result moduleRan, err error) {
	began := time.Now()
	run, s := j.span(run, "module run", about{})
	defer func() { s.end(err) }()
	result.trace = s.name()
	if err := j.loadHooks(run); err != nil {
		return result, err
	}
	// The values of a disabled module were not looked at, and a global hook may have enabled it
	// since (D37).
	if err := j.known.own.ValidateConfig(); err != nil {
		return result, fmt.Errorf("config values: %w", err)
	}
	if !j.known.started {
		if err := j.startUp(run); err != nil {
			return result, err
		}
	}
	if err := j.runOrders(run, hooks.BeforeHelm); err != nil {
		return result, err
	}
	rendered := j.known.own.Checksum()
	if result.release, result.untouched, err = j.applyRelease(run); err != nil {
		return result, err
	}
	j.known.changed = false
	if err := j.runOrders(run, hooks.AfterHelm); err != nil {
		return result, err
	}
	result.changed = j.known.changed && j.known.own.Checksum() != rendered
	j.program.Metrics.Modules.Ran(j.owner, j.task.Cause, began)
	return result, nil
}

// loadHooks waits for the module's hooks when they are not loaded since it was enabled.
func (j moduleJob) loadHooks(run *supervisor.Run) (err error) {
	if j.known.loaded {
		return nil
	}
	run, s := j.span(run, "load hooks", about{})
	defer func() { s.end(err) }()
	run.Step("load hooks")
	return j.ask(run, getHooks{})
}

// startUp is step 5.1: onStartup hooks, Synchronization, then schedules tick.
func (j moduleJob) startUp(run *supervisor.Run) error {
	if err := j.runOrders(run, hooks.OnStartup); err != nil {
		return err
	}
	for _, hook := range j.known.hooks {
		for _, w := range synchronizations(hook) {
			first := bindingKey(hook, w.Bindings[0])
			if hook.Config.Kubernetes[w.Bindings[0]].Queue != hooks.MainQueue || j.known.synchronized[first] || j.known.deferred[first] {
				continue
			}
			if err := j.synchronize(run, hook, w); err != nil {
				return err
			}
		}
	}
	run.Step("wait for Synchronization in other queues")
	if err := j.ask(run, messages.AwaitSynchronized{Trace: traceOf(run)}); err != nil {
		return err
	}
	run.Tell(ownerPath(j.owner), startedUp{j.task.ID})
	return nil
}

// startedUp says to a module that its schedules may tick.
type startedUp struct{ task string }

// runOrders runs the hooks that have an order binding, one after the other (C9).
func (j moduleJob) runOrders(run *supervisor.Run, binding hooks.BindingType) error {
	for _, hook := range hooks.ByOrder(j.known.hooks, binding) {
		if err := j.runOrder(run, hook, binding); err != nil {
			return err
		}
	}
	return nil
}

// applyRelease is step 5.3. Helm sees the values without the list of enabled modules
// (D9) and is not cancelled in the middle: only the end of the grace period stops it.
func (j moduleJob) applyRelease(run *supervisor.Run) (outcome helm.Outcome, untouched bool, err error) {
	if !charts.Exists(j.module.Dir) {
		return helm.Outcome{}, false, stillThere(j.module) // H16
	}
	if j.known.maintenance != "" {
		return helm.Outcome{}, true, nil
	}
	run, s := j.span(run, "helm", about{})
	defer func() { s.end(err) }()
	run.Step("helm")
	for _, section := range []*values.Section{j.known.global, j.known.own} { // D36
		if err := section.ValidateForHelm(); err != nil {
			return helm.Outcome{}, false, fmt.Errorf("values for helm: %w", err)
		}
	}
	if err := j.ownCRDs(run); err != nil {
		return helm.Outcome{}, false, err
	}
	began := time.Now()
	outcome, err = j.apply(run)
	j.program.Metrics.Helm.Ran(j.owner, j.task.Cause, began)
	if err != nil {
		return outcome, false, err
	}
	s.note(func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("release.action", string(outcome.Action)), attribute.Int("release.revision", outcome.Revision), attribute.String("release.reason", outcome.Reason)}
	})
	level := j.log.Info
	if outcome.Action == helm.Skipped {
		level = j.log.Debug
	}
	level("release", "action", outcome.Action, "reason", outcome.Reason, "revision", outcome.Revision)
	return outcome, false, nil
}

// ownCRDs installs the CRDs that the discovery could not: the module was under maintenance, or
// its values enable a subchart since.
func (j moduleJob) ownCRDs(run *supervisor.Run) error {
	if j.program.CRDs == nil {
		return nil
	}
	merged, _ := j.known.values()
	m := helm.Module{Name: j.owner, Key: j.module.Key, Dir: j.module.Dir, Values: merged}
	if j.known.crdsDue {
		return j.program.CRDs.EnsureCRDs(run.Context(), []helm.Module{m})
	}
	return j.program.CRDs.EnsureSubcharts(run.Context(), m)
}

// apply runs Helm, and says to the healer which objects the release has.
func (j moduleJob) apply(run *supervisor.Run) (helm.Outcome, error) {
	merged, _ := j.known.values()
	outcome, err := j.program.Releases.Apply(j.program.Writes, helm.Module{
		Name: j.owner, Key: j.module.Key, Dir: j.module.Dir, Values: merged, Gone: j.known.gone, Drifted: j.known.drifted,
		Began:  func(o helm.Operation) func(error) { return j.operation(run, o) },
		Writes: func(o helm.Object) func(string) { return j.helmWrites(run, o) },
	})
	if err != nil {
		return outcome, errors.Join(fmt.Errorf("helm: %w", err), j.restoreCRDs(run, err))
	}
	if len(outcome.Healed) > 0 {
		j.program.Metrics.Modules.Redeployed(j.owner)
	}
	run.Tell(healerPath, releaseApplied{j.owner, outcome.Objects, j.known.gone})
	if len(j.known.gone) > 0 {
		run.Tell(ownerPath(j.owner), objectsBack{j.known.gone})
	}
	return outcome, nil
}

// operation measures a part of what Helm does.
func (j moduleJob) operation(run *supervisor.Run, o helm.Operation) (ended func(error)) {
	began := time.Now()
	_, s := j.span(run, "helm "+string(o), about{})
	return func(err error) {
		s.end(err)
		j.program.Metrics.Helm.Operated(j.owner, j.task.Cause, o, began)
	}
}

// restoreCRDs applies definitions again that were deleted: Helm could not place their
// objects, and the next attempt can. A kind may be another module's, so those of all
// enabled modules are looked at.
func (j moduleJob) restoreCRDs(run *supervisor.Run, err error) error {
	var refused *helm.Error
	if !errors.As(err, &refused) || refused.Kind != helm.Invalid || j.program.CRDs == nil {
		return nil
	}
	d, err := supervisor.Ask[discovery](run, convergePath, getDiscovery{})
	if err != nil {
		return err
	}
	return j.installCRDs(run, d, func(name string) bool { return slices.Contains(d.before, name) })
}

// deleteModule is the work of a DeleteModule task (G6). After a restart the hooks of a
// module that was disabled meanwhile are loaded for it (T15). One that never ran is left
// alone (E9): its hooks may be the reason, and would stop the main queue. Under maintenance
// it leaves the release untouched.
func (j moduleJob) deleteModule(run *supervisor.Run) (untouched bool, err error) {
	run, s := j.span(run, "module delete", about{})
	defer func() { s.end(err) }()
	if j.known.maintenance != "" {
		return true, nil
	}
	if !j.known.loaded && !j.known.begun { // then only an earlier process can have left something (E9)
		if deployed, err := j.deployed(run); err != nil || !deployed {
			return false, err
		}
	}
	if err := j.loadHooks(run); err != nil {
		return false, err
	}
	if err := j.beforeDelete(run); err != nil {
		return false, err
	}
	if j.known.maintenance != "" { // it has begun meanwhile
		return true, nil
	}
	run.Step("helm uninstall")
	existed, err := j.program.Releases.Uninstall(j.program.Writes, j.owner)
	if err != nil {
		return false, fmt.Errorf("helm uninstall: %w", err)
	}
	if !existed && charts.Exists(j.module.Dir) {
		j.log.Warn("there was no release to uninstall") // G6.2
	}
	return false, j.runOrders(run, hooks.AfterDeleteHelm)
}

// beforeDelete runs beforeDeleteHelm hooks when there is a release (G6.1).
func (j moduleJob) beforeDelete(run *supervisor.Run) error {
	if len(hooks.ByOrder(j.known.hooks, hooks.BeforeDeleteHelm)) == 0 {
		return nil
	}
	if deployed, err := j.deployed(run); err != nil || !deployed {
		return err
	}
	return j.runOrders(run, hooks.BeforeDeleteHelm)
}

// deployed reports whether there is a release of the module.
func (j moduleJob) deployed(run *supervisor.Run) (bool, error) {
	releases, err := j.program.Releases.Releases(run.Context())
	if err != nil {
		return false, fmt.Errorf("list releases: %w", err)
	}
	return slices.Contains(releases, j.owner), nil
}

// sectionFor makes the section of a module from what lies on disk.
func sectionFor(m addons.Module) (*values.Section, error) {
	return values.NewSection(m.Key, m.Schemas, m.Static...)
}
