package work

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"addon-operator/actors/decide"
	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// ModuleJob is a job that takes a module through its life: a run, a delete, a look for
// drift. Its owner is the module.
type ModuleJob struct {
	Job
	Module addons.Module // as it lay on disk when the task began
}

// ModuleRan is the result of a module run.
type ModuleRan struct {
	Release   helm.Outcome
	Untouched bool   // Helm was left out: the module is under maintenance (H15)
	Changed   bool   // afterHelm hooks changed the values (G5.4), and not another writer meanwhile
	Trace     string // its span
}

// Describe says what became of the release.
func (r ModuleRan) Describe() string {
	switch o := r.Release; {
	case r.Untouched:
		return "left alone: the module is under maintenance"
	case o.Action == "":
		return "no chart"
	default:
		return fmt.Sprintf("%s, revision %d: %s", o.Action, o.Revision, o.Reason)
	}
}

// RunModule is the work of a RunModule task (G5). A retry of the start-up execution
// begins with onStartup again, later executions begin with beforeHelm; Synchronization
// runs that succeeded are not repeated (X13).
func (j ModuleJob) RunModule(run *supervisor.Run) (result ModuleRan, err error) {
	began := time.Now()
	run, s := j.span(run, "module run", about{})
	defer func() { s.End(err) }()
	result.Trace = s.Name()
	if err := j.dueCRDs(run); err != nil { // before hooks, which may watch their kinds
		return result, err
	}
	if err := j.loadHooks(run); err != nil {
		return result, err
	}
	// The values of a disabled module were not looked at, and a global hook may have enabled it
	// since (D37).
	if err := j.Known.Own.ValidateConfig(); err != nil {
		return result, fmt.Errorf("config values: %w", err)
	}
	if err := j.awaitReady(run); err != nil {
		return result, err
	}
	if !j.Known.Started || len(j.Known.Fresh) > 0 {
		if err := j.startUp(run); err != nil {
			return result, err
		}
	}
	if err := j.runOrders(run, hooks.BeforeHelm); err != nil {
		return result, err
	}
	rendered := j.Known.Own.Checksum()
	if result.Release, result.Untouched, err = j.applyRelease(run); err != nil {
		return result, err
	}
	j.Known.Changed = false
	if err := j.runOrders(run, hooks.AfterHelm); err != nil {
		return result, err
	}
	result.Changed = j.Known.Changed && j.Known.Own.Checksum() != rendered
	j.Metrics.Modules.Ran(j.Owner, j.Task.Cause, began)
	return result, nil
}

// loadHooks waits for the module's hooks when they are not loaded since it was enabled.
func (j ModuleJob) loadHooks(run *supervisor.Run) (err error) {
	if j.Known.Loaded {
		return nil
	}
	run, s := j.span(run, "load hooks", about{})
	defer func() { s.End(err) }()
	run.Step("load hooks")
	return j.ask(run, GetHooks{})
}

// startUp is G5.1: onStartup hooks, Synchronization, then schedules tick. Once the module has started it is that of the
// hooks that came since (P8).
func (j ModuleJob) startUp(run *supervisor.Run) error {
	begins, fresh := j.Known.Hooks, j.Known.Fresh
	if j.Known.Started {
		begins = slices.DeleteFunc(slices.Clone(begins), func(h hooks.Hook) bool { return fresh[h.Name] != h.Config })
	}
	for _, hook := range hooks.ByOrder(begins, hooks.OnStartup) {
		if j.Known.Started && j.Known.OnceStarted[hook.Name] == hook.Config {
			continue
		}
		if err := j.runOrder(run, hook, hooks.OnStartup); err != nil {
			return err
		}
	}
	for _, hook := range begins {
		for _, w := range Synchronizations(hook) {
			first := BindingKey(hook, w.Bindings[0])
			if hook.Config.Kubernetes[w.Bindings[0]].Queue != hooks.MainQueue || j.Known.Synchronized[first] || j.Known.Deferred[first] {
				continue
			}
			if err := j.Synchronize(run, hook, w); err != nil {
				return err
			}
		}
	}
	run.Step("wait for Synchronization in other queues")
	if err := j.ask(run, messages.AwaitSynchronized{Trace: traceOf(run)}); err != nil {
		return err
	}
	run.Tell(OwnerPath(j.Owner), StartedUp{j.Task.ID, fresh})
	j.Known.Fresh = maps.Clone(j.Known.Fresh) // some may have come meanwhile
	maps.DeleteFunc(j.Known.Fresh, func(name string, config *hooks.Config) bool { return fresh[name] == config })
	return nil
}

// StartedUp says to a module that its schedules may tick. Hooks are those that were new, with their configuration.
type StartedUp struct {
	Task  string
	Hooks map[string]*hooks.Config
}

// runOrders runs the hooks that have an order binding, one after the other (C9). Those whose start-up is due wait for the
// next run.
func (j ModuleJob) runOrders(run *supervisor.Run, binding hooks.BindingType) error {
	for _, hook := range hooks.ByOrder(j.Known.Hooks, binding) {
		if j.Known.Fresh[hook.Name] != nil {
			continue
		}
		if err := j.runOrder(run, hook, binding); err != nil {
			return err
		}
	}
	return nil
}

// applyRelease is G5.3. Helm sees the values without the list of enabled modules
// (D9) and is not cancelled in the middle: only the end of the grace period stops it. But waiting for
// Helm hooks ends with the task.
func (j ModuleJob) applyRelease(run *supervisor.Run) (outcome helm.Outcome, untouched bool, err error) {
	if !charts.Exists(j.Module.Dir) {
		return helm.Outcome{}, false, stillThere(j.Module) // H16
	}
	if j.Known.Maintenance != "" {
		return helm.Outcome{}, true, nil
	}
	run, s := j.span(run, "helm", about{})
	defer func() { s.End(err) }()
	run.Step("helm")
	for _, section := range []*values.Section{j.Known.Global, j.Known.Own} { // D36
		if err := section.ValidateForHelm(); err != nil {
			return helm.Outcome{}, false, fmt.Errorf("values for helm: %w", err)
		}
	}
	if err := j.ownCRDs(run); err != nil {
		return helm.Outcome{}, false, err
	}
	began := time.Now()
	outcome, err = j.apply(run)
	j.Parts.add("", began)
	j.Metrics.Helm.Ran(j.Owner, j.Task.Cause, began)
	j.warnUnread(outcome, err)
	if err != nil {
		return outcome, false, err
	}
	s.note(func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("release.action", string(outcome.Action)), attribute.Int("release.revision", outcome.Revision), attribute.String("release.reason", outcome.Reason)}
	})
	level := j.Log.Info
	if outcome.Action == helm.Skipped {
		level = j.Log.Debug
	}
	level("release", "action", outcome.Action, "reason", outcome.Reason, "revision", outcome.Revision)
	return outcome, false, nil
}

// dueCRDs installs the CRDs that the discovery could not: the module was under maintenance, their files were
// wrong, or have changed since.
func (j ModuleJob) dueCRDs(run *supervisor.Run) error {
	if j.CRDs == nil || j.Known.CRDsDue == 0 || j.Known.Maintenance != "" {
		return nil
	}
	run.Step("CRDs")
	merged, _ := j.Known.Values()
	if _, err := j.CRDs.EnsureCRDs(run.Context(), []helm.Module{plan.HelmModule(j.Module, merged)}); err != nil {
		return &CRDError{err}
	}
	run.Tell(OwnerPath(j.Owner), CRDsInstalled{j.Known.CRDsDue})
	j.Known.CRDsDue = 0
	return nil
}

// CRDsInstalled says to a module that its CRDs are in the cluster.
// Due is what it knew of them when that began.
type CRDsInstalled struct{ Due int }

// ownCRDs installs those that are due only now: maintenance is over since the run began, or values enable a subchart.
func (j ModuleJob) ownCRDs(run *supervisor.Run) error {
	if j.CRDs == nil {
		return nil
	}
	if j.Known.CRDsDue != 0 {
		return j.dueCRDs(run)
	}
	merged, _ := j.Known.Values()
	if err := j.CRDs.EnsureSubcharts(run.Context(), plan.HelmModule(j.Module, merged)); err != nil {
		return &CRDError{err}
	}
	return nil
}

// apply runs Helm, and says to the healer which objects the release has.
func (j ModuleJob) apply(run *supervisor.Run) (helm.Outcome, error) {
	merged, _ := j.Known.Values()
	m := plan.HelmModule(j.Module, merged)
	m.Gone, m.Drifted = j.Known.Gone, j.Known.Drifted
	m.Began = func(o helm.Operation) func(error) { return j.operation(run, o) }
	m.Writes = func(o helm.Object) func(string) { return j.helmWrites(run, o) }
	m.HookWaits = j.hookWaits(run)
	outcome, err := j.Releases.Apply(j.WriteContext, m)
	if err != nil {
		return outcome, j.helmFailed(run, err)
	}
	if len(outcome.Healed) > 0 {
		j.Metrics.Modules.Redeployed(j.Owner)
	}
	run.Tell(HealerPath, ReleaseApplied{j.Owner, outcome.Objects, j.Known.Gone})
	wrote := outcome.Action != helm.Skipped && outcome.Action != helm.Adopted
	if _, err := supervisor.Ask[HealthReported](run, HealerPath, ReportHealth{j.Owner, wrote}); err != nil {
		return outcome, err // the run is cancelled
	}
	if len(j.Known.Gone) > 0 {
		run.Tell(OwnerPath(j.Owner), ObjectsBack{j.Known.Gone})
	}
	return outcome, nil
}

// hookWaits is how Helm waits for its hooks: until the task is cancelled, and the module knows of it.
func (j ModuleJob) hookWaits(run *supervisor.Run) helm.HookWaits {
	return helm.HookWaits{
		Until: run.Context().Done(),
		Report: func(w *helm.HookWait) {
			var wait *view.Wait
			if w != nil {
				wait = &view.Wait{Object: w.Object, Pod: w.Pod, State: w.State, Message: w.Message, Deleted: w.Deleted, Since: w.Since, Until: w.Until}
			}
			run.Tell(OwnerPath(j.Owner), Waits{j.Task.ID, wait})
		},
	}
}

// Waits says to a module what its run waits for; Wait is nil when that is over.
type Waits struct {
	Task string
	Wait *view.Wait
}

// ReleaseApplied says to the healer which objects a release has.
type ReleaseApplied struct {
	Module  string
	Objects []helm.Object
	Back    []helm.Object // of those that were gone
}

// ReportHealth has the healer report the health of a module's objects at once. When Helm wrote them, what is known is out of
// date. It is answered when the module has the report: it is not ready with what was current before, or without any.
type ReportHealth struct {
	Module string
	Wrote  bool
}

// HealthReported answers ReportHealth.
type HealthReported struct{}

// ObjectsBack says to a module what Helm has applied again.
type ObjectsBack struct{ Objects []helm.Object }

// operation measures a part of what Helm does.
func (j ModuleJob) operation(run *supervisor.Run, o helm.Operation) (ended func(error)) {
	began := time.Now()
	_, s := j.span(run, "helm "+string(o), about{})
	return func(err error) {
		s.End(err)
		j.Metrics.Helm.Operated(j.Owner, j.Task.Cause, o, began)
	}
}

// helmFailed does what may cure an error of Helm, and says so in it.
func (j ModuleJob) helmFailed(run *supervisor.Run, err error) error {
	hint, restoring := j.restoreCRDs(run, err)
	if hint == "" {
		hint = j.runProviders(run, err)
	}
	if hint != "" {
		err = helm.Advised(err, hint)
	}
	return errors.Join(fmt.Errorf("helm: %w", err), restoring)
}

// restoreCRDs applies definitions again that were deleted: Helm could not place their
// objects, and the next attempt can. A kind may be another module's, so those of all
// enabled modules are looked at. hint says where the one was that was lacking.
func (j ModuleJob) restoreCRDs(run *supervisor.Run, err error) (hint string, _ error) {
	var refused *helm.Error
	if !errors.As(err, &refused) || refused.Kind != helm.Invalid || j.CRDs == nil {
		return "", nil
	}
	needs := needsOf(helm.NeedsOf(err))
	d, err := supervisor.Ask[Discovery](run, ConvergePath, GetDiscovery{})
	if err != nil {
		return "", err
	}
	written, failed, err := j.installCRDs(run, d, j.Known.Global, func(name string) bool { return slices.Contains(d.Before, name) })
	for name, file := range written {
		if decide.Defines(name, needs) {
			hint = "its definition was not in the cluster, and is applied again from " + file
			failed = nil // those of others
		}
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		err = errors.Join(err, failed[name])
	}
	return hint, err
}

// DeleteModule is the work of a DeleteModule task (G6). After a restart the hooks of a
// module that was disabled meanwhile are loaded for it (T15). One that never ran is left
// alone (E9): its hooks may be the reason, and would stop the main queue. Under maintenance
// it leaves the release untouched.
func (j ModuleJob) DeleteModule(run *supervisor.Run) (untouched bool, err error) {
	run, s := j.span(run, "module delete", about{})
	defer func() { s.End(err) }()
	if j.Known.Maintenance != "" {
		return true, nil
	}
	if !j.Known.Loaded && !j.Known.Begun { // then only an earlier process can have left something (E9)
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
	if j.Known.Maintenance != "" { // it has begun meanwhile
		return true, nil
	}
	run.Step("helm uninstall")
	existed, err := j.Releases.Uninstall(j.WriteContext, j.Owner, j.hookWaits(run))
	if err != nil {
		return false, fmt.Errorf("helm uninstall: %w", err)
	}
	if !existed && charts.Exists(j.Module.Dir) {
		j.Log.Warn("there was no release to uninstall") // G6.2
	}
	return false, j.runOrders(run, hooks.AfterDeleteHelm)
}

// beforeDelete runs beforeDeleteHelm hooks when there is a release (G6.1).
func (j ModuleJob) beforeDelete(run *supervisor.Run) error {
	if len(hooks.ByOrder(j.Known.Hooks, hooks.BeforeDeleteHelm)) == 0 {
		return nil
	}
	if deployed, err := j.deployed(run); err != nil || !deployed {
		return err
	}
	return j.runOrders(run, hooks.BeforeDeleteHelm)
}

// deployed reports whether there is a release of the module.
func (j ModuleJob) deployed(run *supervisor.Run) (bool, error) {
	releases, err := j.Releases.Releases(run.Context())
	if err != nil {
		return false, fmt.Errorf("list releases: %w", err)
	}
	return slices.Contains(releases, j.Owner), nil
}
