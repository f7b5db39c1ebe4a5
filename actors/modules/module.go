package modules

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// module owns the values, hooks, phase and release of one module and supervises its runs. It lives
// as long as the process: disabling is a message, never a stop, because a new actor of the same
// name would receive late messages of the old one. Its parts (life, loading, release, …) are in
// files of their own; here is what leads from a message to a run.
type module struct {
	owner   *owner
	program *shared.Program
	name    string
	log     *slog.Logger

	module  addons.Module
	life    moduleLife
	loading loading
	release moduleRelease
	drift   drift
	delayed delayedRun
	quiet   whenQuiet

	// crdsDue: the next attempt at a run has to compare the CRDs (M): the last one has not, the discovery could not
	// install them, they were left out under maintenance, or their files may have changed.
	crdsDue bool
	begun   bool            // its directory went in the middle of a run or a delete: when it is back, the next run does not assume that its start-up has completed
	lastRun *view.ModuleRun // published, so it is replaced and never changed
}

// New makes a module, disabled.
func New(p *shared.Program, dir addons.Module, section *values.Section) actor.Actor {
	return newModule(p, dir, section)
}

func newModule(p *shared.Program, dir addons.Module, section *values.Section) *module {
	m := &module{program: p, name: dir.Name, log: p.Log.With("module", dir.Name), module: dir}
	m.owner = newOwner(m, p, dir.Name, dir.Root, m.log, section)
	m.life = moduleLife{log: m.log, phase: view.Disabled}
	m.loading = loading{owner: m.owner, dir: &m.module, life: &m.life}
	m.release = moduleRelease{owner: m.owner, life: &m.life}
	m.delayed = delayedRun{program: p, name: m.name, log: m.log}
	m.drift = drift{program: p, name: m.name, log: m.log, release: &m.release, delayed: &m.delayed}
	m.quiet = whenQuiet{runs: m.owner.tasks.runs}
	return m
}

// Receive implements actor.Actor.
func (m *module) Receive(ctx actor.Context) {
	if !m.owner.receive(ctx) && !m.receive(ctx) {
		shared.Unhandled(ctx, m.log)
	}
	if m.life.leavesSeries(m.owner.tasks.runs.Len()) {
		m.program.Metrics.ForgetModule(m.name, nil)
	}
	// Every message may have changed what others wait for or are shown.
	m.quiet.answer(ctx)
	m.publish()
}

// receive handles the messages that only modules understand, and reports whether it was one.
func (m *module) receive(ctx actor.Context) bool {
	switch msg := ctx.Message().(type) {
	case messages.ExecuteTask:
		m.execute(ctx, msg.Task)
	case work.GetHooks:
		m.loading.answer(ctx)
	case messages.EnableModule:
		m.crdsDue = m.crdsDue || msg.CRDsDue
		m.enable(ctx)
	case messages.SetModule:
		m.setMaintenance(ctx, msg.Maintenance)
		if msg.On {
			m.resume(ctx)
		} else {
			m.suspend(ctx)
		}
	case work.AdoptModule:
		held, allowed := m.release.held, m.release.allowed // the release stays as it is
		m.forget(ctx)                                      // its hooks may be others
		m.release.held, m.release.allowed = held, allowed
		m.crdsDue = m.crdsDue || !msg.Module.SameFiles(m.module)
		m.module, m.owner.values.section = msg.Module, msg.Section
	case work.UpdateModule:
		m.update(msg)
	case messages.ForgetModule:
		m.retire(ctx)
	case driftDue:
		m.drift.begin(ctx, msg)
	case messages.ConfirmPurge:
		m.release.allowed = msg.Value
		m.reconcile(ctx, messages.Cause{Activation: messages.ByConfigMap, Detail: kube.ConfirmPurgeAnnotation})
	case leaveDue:
		m.owner.tasks.leaveDue(ctx, msg)
	case work.AwaitQuiet:
		m.quiet.awaiting = append(m.quiet.awaiting, ctx.Sender())
	default:
		return false
	}
	return true
}

// known implements applier: what the owner hands over, with what only a module has. Lists are
// copies, because the module changes its own while runs read these.
func (m *module) known() work.Known {
	tree := m.program.Runs.Tree.Load() // first: when it is in force, the global values of its files are
	k := m.owner.known()
	if k.Module = m.module; tree != nil {
		k.GlobalFiles = tree.Global
	}
	k.Loaded, k.Started, k.Begun = m.loading.done, m.life.started(), m.begun
	k.Maintenance, k.CRDsDue = m.life.maintenance, m.crdsDue
	k.Applied, k.Allowed = m.release.last.Action != "", m.release.allowed
	if m.program.Drift == messages.DriftCorrect {
		k.Drifted = m.drift.correcting
	}
	return k
}

// execute begins a task: steps 2 and 4 of the way of a task (docs/architecture.md), for a hook and
// for a module run. Tasks of a module that is switched off are ended as done (E12), except a
// delete.
func (m *module) execute(ctx actor.Context, t messages.Task) {
	j := m.moduleJob(t)
	a := &assignment{Job: j.Job, queue: ctx.Sender()}
	switch w := t.Work.(type) {
	case messages.RunModule:
		m.executeRun(ctx, a, j)
	case messages.DeleteModule:
		if !m.life.off() { // switched on again since this was queued (E14); a reload finds out what is due
			shared.Refuse(ctx, t)
			ctx.Send(m.program.PID(work.ConvergePath), messages.RequestReload{Cause: t.Cause})
			return
		}
		m.life.become(view.Deleting)
		// Again, for a Helm action that ended after the module was suspended.
		m.release.forget()
		a.work = func(run *supervisor.Run) (any, error) { return j.DeleteModule(run) }
		a.succeeded, a.failed, a.leaves, a.release = m.deleted, m.countFailure, m.program.Isolate, true
		m.owner.tasks.startAlone(ctx, m.unlessGone(a))
	case messages.CheckDrift:
		if !m.release.rests() {
			shared.Refuse(ctx, t)
			return
		}
		m.owner.tasks.start(ctx, m.unlessGone(m.drift.look(a, j)))
	case messages.RunHook:
		m.executeHook(ctx, a, w.Hook, func(run *supervisor.Run, hook hooks.Hook) error { return j.Hook(run, hook).Run(w) })
	case messages.SynchronizeHook:
		if m.owner.hooks.needless(w) {
			shared.Refuse(ctx, t)
			return
		}
		m.executeHook(ctx, a, w.Hook, func(run *supervisor.Run, hook hooks.Hook) error { return j.Hook(run, hook).Synchronize(w) })
	default:
		m.log.Error("task refused", "task", t.String(), "err", shared.ErrNoSuchWork)
		shared.Refuse(ctx, t)
	}
}

// moduleJob makes what a run needs to take the module through its life. It reads the directory and
// its root each time: an update may have replaced them (P8).
func (m *module) moduleJob(t messages.Task) work.ModuleJob {
	j := work.ModuleJob{Job: m.owner.job(t), Module: m.module}
	j.WorkingDir = m.module.Root
	return j
}

// executeHook begins a task that runs one hook. When the module is switched off, the task ends: if the module is
// enabled again, the Synchronization shows what it was about (E14).
func (m *module) executeHook(ctx actor.Context, a *assignment, name string, do func(*supervisor.Run, hooks.Hook) error) {
	hook, err := m.owner.hooks.find(name)
	if err != nil || m.life.off() {
		m.owner.hooks.unqueued(a.Task)
		shared.Refuse(ctx, a.Task)
		return
	}
	a.work = func(run *supervisor.Run) (any, error) { return nil, do(run, hook) }
	m.owner.tasks.start(ctx, m.unlessGone(a))
}

// executeRun begins a module run, if the phase allows one. The run needs the release for itself.
func (m *module) executeRun(ctx actor.Context, a *assignment, j work.ModuleJob) {
	switch m.life.phase {
	case view.Disabled, view.Suspended, view.Deleting:
		// A run that was queued before the module was disabled must not start it again, not
		// even when its delete has failed and is parked.
		shared.Refuse(ctx, a.Task)
		return
	}
	if m.life.maintenance == values.Suspended { // before its first run; afterwards the phase says so
		shared.Refuse(ctx, a.Task)
		return
	}
	m.delayed.stop() // this run sees what the delayed one was for
	m.drift.stop(ctx, m.owner.tasks.runs)
	a.work = func(run *supervisor.Run) (any, error) { return j.RunModule(run) }
	a.succeeded = func(ctx actor.Context, result any) { m.ran(ctx, a.Task, result) }
	a.cancelled = func(ctx actor.Context) {
		m.crdsDue = m.crdsDue || a.Known.CRDsDue
		m.release.runEnded(ctx)
	}
	a.failed = func(at supervisor.Attempt) {
		m.crdsDue = m.crdsDue || a.Known.CRDsDue
		m.countFailure(at)
	}
	a.leaves, a.release = m.program.Isolate, true
	a.begins = m.runBegins
	m.owner.tasks.startAlone(ctx, m.unlessGone(a))
}

// runBegins is called before each attempt at a run.
func (m *module) runBegins(t messages.Task, attempt int) {
	switch m.life.phase {
	case view.Waiting:
		m.life.become(view.Starting)
	case view.Ready:
		m.life.become(view.Running)
	}
	m.crdsDue = m.crdsDue && m.life.maintenance != "" // else this attempt compares them
	if attempt == 0 {
		m.lastRun = &view.ModuleRun{Began: time.Now(), Causes: t.Cause.Chain(), Also: t.Also}
	}
}

// ran ends a module run that has succeeded. Untouched means maintenance: Helm was not asked, so
// nothing new is known of the release.
func (m *module) ran(ctx actor.Context, t messages.Task, result any) {
	outcome, _ := result.(work.ModuleRan)
	m.release.runEnded(ctx)
	if !outcome.Untouched {
		m.release.last = outcome.Release
		m.release.noteHeld(outcome.Release.Held)
		m.delayed.tellUnstable(t, outcome.Release)
		m.drift.correcting = nil
		m.drift.lookLater(driftMoment)
	}
	m.life.become(view.Ready)
	if m.lastRun != nil {
		run := *m.lastRun // the old one is published
		run.Release, run.Took = outcome.Describe(), time.Since(run.Began)
		run.Unchanged = !outcome.Untouched && outcome.Release.Action == helm.Skipped && !outcome.Release.Unstable
		m.lastRun = &run
	}
	if outcome.Changed { // G5.4: at once, as the next task
		again := m.program.NewTask(m.name, messages.RunModule{}, messages.By(messages.ByHook, "afterHelm hooks of "+m.name+" changed values", t.Cause).In(outcome.Trace))
		again.Reload, again.Trace = t.Reload, t.Trace
		m.delayed.runAgain(ctx, true, again)
	}
}

// countFailure counts a failed attempt at a run or a delete; the phase says which.
func (m *module) countFailure(supervisor.Attempt) {
	m.program.Metrics.Modules.Failed(m.name, m.life.phase)
}

// patches implements applier: the section checks that a hook of a module touches nothing else (D20).
func (m *module) patches(r hooks.Result) (config, memory values.Patch, _ flagChanges, err error) {
	return r.ConfigPatch, r.ValuesPatch, flagChanges{}, nil
}

// committed implements applier (G14, G18). If the module has an enabled script, that is asked first: the new values may
// switch the module off (E6).
func (m *module) committed(ctx actor.Context, msg messages.ApplyHookResult, changed bool, _ flagChanges) {
	switch {
	case !changed || !msg.Triggers || m.life.off():
	case m.module.EnabledScript != "":
		ctx.Send(m.program.PID(work.ConvergePath), messages.SectionChanged{Module: m.name, Cause: msg.Cause})
	default:
		m.reconcile(ctx, msg.Cause)
	}
}

// reconcile implements applier: it queues a run, delayed if the cause goes round in a loop.
func (m *module) reconcile(ctx actor.Context, cause messages.Cause) {
	if !m.life.off() {
		m.delayed.runAgain(ctx, false, m.program.NewTask(m.name, messages.RunModule{}, cause))
	}
}

// HandleFailure implements actor.SupervisorStrategy. A failure of a run arrives here and not in
// Receive, so the status is published here, too.
func (m *module) HandleFailure(system *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, stats *actor.RestartStatistics, reason, message any) {
	m.owner.tasks.runs.HandleFailure(system, sup, child, stats, reason, message)
	m.publish()
}

// publish shows the module on pages, in metrics and in its object of kind Module. It is noted as
// changed after the publication, so that readers of the note find the new status.
func (m *module) publish() {
	defer m.program.Changed.Note(m.name)
	m.program.Inspector.Publish(m.program.Owner(m.name), view.ModuleStatus{
		Phase: m.life.phase, Order: m.module.Order, Hooks: len(m.owner.hooks.all), Loaded: m.owner.hooks.all, Runs: m.owner.tasks.runs.Len(), Release: m.release.last.Revision,
		Section: m.owner.values.section, Values: m.owner.values.section.Checksum()[:8], Failing: m.owner.tasks.listFailing(), Parked: m.owner.tasks.isOut(), LastRun: m.lastRun,
		Enabled: m.life.enabled(), Version: m.release.last.ChartVersion, AppVersion: m.release.last.AppVersion,
		Namespace: m.module.File.Namespace, Maintenance: m.life.maintenance, Drift: m.drift.told, Drifted: m.drift.shown(), Held: m.release.held,
	})
}
