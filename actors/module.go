package actors

import (
	"errors"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

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
	program *program
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
func newModuleActor(p *program, dir addons.Module, section *values.Section) actor.Actor {
	return newModule(p, dir, section)
}

func newModule(p *program, dir addons.Module, section *values.Section) *module {
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
		unhandled(ctx, m.log)
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
	case getHooks:
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
	case adoptModule:
		held, allowed := m.release.held, m.release.allowed // the release stays as it is
		m.forget(ctx)                                      // its hooks may be others
		m.release.held, m.release.allowed = held, allowed
		m.crdsDue = m.crdsDue || !msg.Module.SameFiles(m.module)
		m.module, m.owner.values.section = msg.Module, msg.Section
	case updateModule:
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
	case awaitQuiet:
		m.quiet.awaiting = append(m.quiet.awaiting, ctx.Sender())
	default:
		return false
	}
	return true
}

// known implements applier: what the owner hands over, with what only a module has. Lists are
// copies, because the module changes its own while runs read these.
func (m *module) known() known {
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
			refuse(ctx, t)
			ctx.Send(m.program.PID(convergePath), messages.RequestReload{Cause: t.Cause})
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
			refuse(ctx, t)
			return
		}
		m.owner.tasks.start(ctx, m.unlessGone(m.drift.look(a, j)))
	case messages.RunHook:
		m.executeHook(ctx, a, w.Hook, func(run *supervisor.Run, hook hooks.Hook) error { return j.Hook(run, hook).Run(w) })
	case messages.SynchronizeHook:
		if m.owner.hooks.needless(w) {
			refuse(ctx, t)
			return
		}
		m.executeHook(ctx, a, w.Hook, func(run *supervisor.Run, hook hooks.Hook) error { return j.Hook(run, hook).Synchronize(w) })
	default:
		m.log.Error("task refused", "task", t.String(), "err", errNoSuchWork)
		refuse(ctx, t)
	}
}

// moduleJob makes what a run needs to take the module through its life. It reads the directory and
// its root each time: an update may have replaced them (P8).
func (m *module) moduleJob(t messages.Task) moduleJob {
	j := moduleJob{Job: m.owner.job(t), Module: m.module}
	j.WorkingDir = m.module.Root
	return j
}

// executeHook begins a task that runs one hook. When the module is switched off, the task ends: if the module is
// enabled again, the Synchronization shows what it was about (E14).
func (m *module) executeHook(ctx actor.Context, a *assignment, name string, do func(*supervisor.Run, hooks.Hook) error) {
	hook, err := m.owner.hooks.find(name)
	if err != nil || m.life.off() {
		m.owner.hooks.unqueued(a.Task)
		refuse(ctx, a.Task)
		return
	}
	a.work = func(run *supervisor.Run) (any, error) { return nil, do(run, hook) }
	m.owner.tasks.start(ctx, m.unlessGone(a))
}

// executeRun begins a module run, if the phase allows one. The run needs the release for itself.
func (m *module) executeRun(ctx actor.Context, a *assignment, j moduleJob) {
	switch m.life.phase {
	case view.Disabled, view.Suspended, view.Deleting:
		// A run that was queued before the module was disabled must not start it again, not
		// even when its delete has failed and is parked.
		refuse(ctx, a.Task)
		return
	}
	if m.life.maintenance == values.Suspended { // before its first run; afterwards the phase says so
		refuse(ctx, a.Task)
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
	outcome, _ := result.(moduleRan)
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
	m.program.Metrics.ModuleFailed(m.name, m.life.phase)
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
		ctx.Send(m.program.PID(convergePath), messages.SectionChanged{Module: m.name, Cause: msg.Cause})
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

// owner is what a module and the global hooks have in common: it is the single writer of one
// section of values, has hooks, and supervises the runs of its tasks. Its three parts know each
// other only as far as they must, so that each can be read alone.
type owner struct {
	part
	// workingDir is WORKING_DIR of its hooks: the root in which they are searched (C23).
	workingDir string
	limits     limits
	// unfinished are effects of hooks that were committed but not written to the cluster yet. They
	// survive the attempt, so that a retry writes them without running the hook again (D26).
	unfinished *Unfinished

	tasks  *ownTasks
	hooks  *ownHooks
	values *ownValues
}

// part is what each part of an owner knows of the whole.
type part struct {
	self    applier // the actor whose part it is
	program *program
	name    string // module name, or messages.GlobalHooks
	log     *slog.Logger
}

func newOwner(self applier, p *program, name, workingDir string, log *slog.Logger, section *values.Section) *owner {
	of, unfinished := part{self, p, name, log}, &Unfinished{}
	tasks := newTasks(of, unfinished)
	o := &owner{part: of, workingDir: workingDir, unfinished: unfinished, tasks: tasks, hooks: newOwnHooks(of, tasks), values: &ownValues{part: of, section: section, unfinished: unfinished}}
	// the two parts need each other: hooks cancels tasks, and the end of a task allows its
	// Synchronization to be queued again
	tasks.over = o.hooks.unqueued
	return o
}

// receive handles the messages that all owners understand, and reports whether the message was one
// of them. The messages of runs come first: a run that has ended must be forgotten before anything
// else looks at it.
func (o *owner) receive(ctx actor.Context) bool {
	if o.tasks.runs.Receive(ctx) {
		return true
	}
	switch msg := ctx.Message().(type) {
	case messages.ApplyHookResult:
		o.values.apply(ctx, application{msg: msg, from: ctx.Sender()})
	case messages.ConfigSaved:
		o.values.configSaved(ctx, msg)
	case messages.SetConfig:
		o.values.setConfig(msg)
		o.tasks.retryNow()
	case messages.BindingSettled:
		o.hooks.bindingSettled(ctx, msg)
	case messages.AwaitSynchronized:
		o.hooks.await(ctx, msg)
	case messages.RetryNow:
		o.tasks.retryNow()
	case messages.EndAttempts:
		o.tasks.endAttempts(ctx, msg)
	case handOver:
		ctx.Respond(handed{Known: o.self.known()})
	default:
		return false
	}
	return true
}

// reset forgets what belongs to an enabled module only (E11): its hooks, the patches that they
// saved, and effects that were still due.
func (o *owner) reset() {
	o.hooks.reset()
	o.values.section = o.values.section.WithoutPatches()
	o.unfinished.Clear()
}

// job makes what a run needs to run hooks of this owner.
func (o *owner) job(t messages.Task) Job {
	return Job{Shared: o.program.Runs, Owner: o.name, WorkingDir: o.workingDir, Task: t, Known: &known{}, Log: o.log, Limits: &o.limits, Unfinished: o.unfinished}
}

// known is the immutable value that an owner hands over to a run before each attempt and with each
// answer. Maps in it are copies. Modules add what only they know.
func (o *owner) known() known {
	k := known{Global: o.program.Global.Load(), Own: o.values.section, Enabled: o.program.EnabledModules()}
	o.hooks.handOver(&k)
	return k
}

// whenQuiet answers runs that wait until nothing of a module runs.
type whenQuiet struct {
	runs     *supervisor.Runs
	awaiting []*actor.PID
}

// answer is called after every message, because the end of a run is one.
func (q *whenQuiet) answer(ctx actor.Context) {
	if q.runs.Len() > 0 {
		return
	}
	for _, pid := range q.awaiting {
		ctx.Send(pid, moduleQuiet{})
	}
	q.awaiting = nil
}

// directoryGone is the result of work that failed because the directory of its module
// was removed.
type directoryGone struct{ err error }

// unlessGone ends a task that failed when the directory of its module is gone. No
// further attempt could succeed, and the reload that finds out that the module is to be
// purged may wait behind this very task: the main queue would be blocked forever.
func (m *module) unlessGone(a *assignment) *assignment {
	do, succeeded, dir := a.work, a.succeeded, m.module
	a.work = func(run *supervisor.Run) (any, error) {
		result, err := do(run)
		if err != nil && dir.Gone() {
			return directoryGone{err}, nil
		}
		if changed, ok := errors.AsType[*filesChanged](err); ok {
			return changed, nil
		}
		return result, err
	}
	a.succeeded = func(ctx actor.Context, result any) {
		if gone, ok := result.(directoryGone); ok {
			m.log.Warn("the directory of the module is gone: its task is dropped, all modules are discovered again", "task", a.Task.String(), "err", gone.err)
			m.forget(ctx)
			ctx.Send(m.program.PID(convergePath), messages.RequestReload{Cause: messages.By(messages.ByDirectory, m.name+" was removed", a.Task.Cause)})
			return
		}
		if changed, ok := result.(*filesChanged); ok { // a retry with the same values could not succeed either
			m.log.Warn("files have changed during the task: it is dropped, all modules are discovered again", "task", a.Task.String(), "err", changed)
			m.release.runEnded(ctx)
			ctx.Send(m.program.PID(convergePath), messages.RequestReload{Cause: messages.By(messages.ByFiles, "files of "+m.name+" changed during its run", a.Task.Cause)})
			return
		}
		if succeeded != nil {
			succeeded(ctx, result)
		}
	}
	return a
}
