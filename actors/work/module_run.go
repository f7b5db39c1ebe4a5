package work

import (
	"fmt"
	"time"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// ModuleJob is a job that takes a module through its life: a run, a delete, a look for drift. Its
// owner is the module.
type ModuleJob struct {
	Job
	Module addons.Module // as it was on disk when the task began
}

// ModuleRan is the result of a module run.
type ModuleRan struct {
	Release   helm.Outcome
	Untouched bool   // Helm was left out: the module is under maintenance (H15)
	Changed   bool   // afterHelm hooks changed the values (G5.4), and not another writer meanwhile
	Trace     string // its span
}

// Describe says what was done to the release.
func (r ModuleRan) Describe() string {
	switch o := r.Release; {
	case r.Untouched:
		return "left alone: the module is under maintenance"
	case o.Action == "":
		return "no chart"
	case o.Held != nil:
		return fmt.Sprintf("the upgrade from revision %d is held back: %s", o.Revision, o.Reason)
	default:
		return fmt.Sprintf("%s, revision %d: %s", o.Action, o.Revision, o.Reason)
	}
}

// RunModule is the work of a RunModule task (G5). A retry of the start-up execution begins with
// onStartup again, later executions begin with beforeHelm; Synchronizations that succeeded are not
// repeated (X13). CRDs come first, because hooks may watch their kinds. The config values are
// checked here because those of a disabled module were not (D37), and a global hook may have
// enabled it since.
func (j ModuleJob) RunModule(run *supervisor.Run) (result ModuleRan, err error) {
	began := time.Now()
	run, s := j.span(run, "module run", about{})
	defer func() { s.End(err) }()
	result.Trace = s.Name()
	if err := j.release(run).dueCRDs(); err != nil { // before hooks, which may watch their kinds
		return result, err
	}
	if err := j.loadHooks(run); err != nil {
		return result, err
	}
	if err := j.Known.Own.ValidateConfig(); err != nil {
		return result, fmt.Errorf("config values: %w", err)
	}
	if !j.Known.Started {
		if err := j.startUp(run); err != nil {
			return result, err
		}
	}
	if err := j.runOrders(run, hooks.BeforeHelm); err != nil {
		return result, err
	}
	// Only values that differ from those that Helm gets need another run: what one afterHelm hook
	// sets the next one may take back.
	rendered := j.Known.Own.Checksum()
	if result.Release, result.Untouched, err = j.release(run).apply(); err != nil {
		return result, err
	}
	if result.Release.Held != nil { // what afterHelm hooks are for has not happened
		j.Metrics.Modules.Ran(j.Owner, j.Task.Cause, began)
		return result, nil
	}
	j.Known.Changed = false
	if err := j.runOrders(run, hooks.AfterHelm); err != nil {
		return result, err
	}
	result.Changed = j.Known.Changed && j.Known.Own.Checksum() != rendered
	j.Metrics.Modules.Ran(j.Owner, j.Task.Cause, began)
	return result, nil
}

// loadHooks has the owner load the hooks, and waits for them. Usually they were loaded since the
// discovery, while other modules ran.
func (j ModuleJob) loadHooks(run *supervisor.Run) (err error) {
	if j.Known.Loaded {
		return nil
	}
	run, s := j.span(run, "load hooks", about{})
	defer func() { s.End(err) }()
	run.Step("load hooks")
	return j.ask(run, GetHooks{})
}

// startUp is G5.1: onStartup hooks, Synchronizations, then schedules tick.
func (j ModuleJob) startUp(run *supervisor.Run) error {
	for _, hook := range hooks.ByOrder(j.Known.Hooks, hooks.OnStartup) {
		if err := j.Hook(run, hook).order(hooks.OnStartup); err != nil {
			return err
		}
	}
	for _, hook := range j.Known.Hooks {
		for _, w := range Synchronizations(hook) {
			_, settled := j.Known.Settled[BindingKey(hook, w.Bindings[0])]
			if hook.Config.Kubernetes[w.Bindings[0]].Queue != hooks.MainQueue || settled {
				continue // another queue runs it, or it was done, or it comes later
			}
			if err := j.Hook(run, hook).Synchronize(w); err != nil {
				return err
			}
		}
	}
	run.Step("wait for Synchronization in other queues")
	return j.ask(run, messages.AwaitSynchronized{Task: j.Task.ID, Trace: traceOf(run)})
}

// runOrders runs the hooks that have an order binding, one after the other (C9).
func (j ModuleJob) runOrders(run *supervisor.Run, binding hooks.BindingType) error {
	for _, hook := range hooks.ByOrder(j.Known.Hooks, binding) {
		if err := j.Hook(run, hook).order(binding); err != nil {
			return err
		}
	}
	return nil
}

// DeleteModule is the work of a DeleteModule task (G6); untouched says that maintenance left the
// release alone. After a restart the hooks of a module that was disabled meanwhile are loaded for
// it, but only if it has a release (E9): the hooks of a module that never ran may be the very
// reason for disabling it, and a failure would stop the main queue. Helm gets WriteContext: it is
// not interrupted when the task is cancelled.
func (j ModuleJob) DeleteModule(run *supervisor.Run) (untouched bool, err error) {
	run, s := j.span(run, "module delete", about{})
	defer func() { s.End(err) }()
	if j.Known.Maintenance != "" {
		return true, nil
	}
	if !j.Known.Loaded && !j.Known.Begun { // then only an earlier process can have left something (E9)
		if deployed, err := j.release(run).deployed(); err != nil || !deployed {
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
	merged, _ := j.Known.Values()
	m := plan.HelmModule(j.Module, merged)
	m.GiveUp = run.Context().Done()
	existed, err := j.Releases.Uninstall(j.WriteContext, m)
	if err != nil {
		return false, fmt.Errorf("helm uninstall: %w", err)
	}
	if !existed && charts.Exists(j.Module.Dir) {
		j.Log.Warn("module has no release to uninstall") // G6.2
	}
	return false, j.runOrders(run, hooks.AfterDeleteHelm)
}

// beforeDelete runs beforeDeleteHelm hooks when there is a release (G6.1). It asks the cluster only
// for modules that have such hooks.
func (j ModuleJob) beforeDelete(run *supervisor.Run) error {
	if len(hooks.ByOrder(j.Known.Hooks, hooks.BeforeDeleteHelm)) == 0 {
		return nil
	}
	if deployed, err := j.release(run).deployed(); err != nil || !deployed {
		return err
	}
	return j.runOrders(run, hooks.BeforeDeleteHelm)
}
