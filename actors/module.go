package actors

import (
	"errors"
	"log/slog"
	"maps"
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
// name would receive late messages of the old one. module_life.go is what happens when it is switched on and off.
type module struct {
	*owner
	module addons.Module

	life[view.Phase]
	// maintenance is the mode (H15, values.Suspended, …), empty for none.
	maintenance string

	loaded  bool         // the hooks were asked for their configuration
	loading *loading     // nil: they are not being loaded
	loads   int          // that have begun
	last    helm.Outcome // of the last run that asked Helm; the zero value before
	held    string       // why an upgrade waits for a person, and what allows it; empty for none
	allowed string       // what a person has allowed, until a run has ended that could use it
	drift   drift
	delayed *time.Timer // queues a run that waits because it is part of a loop

	begun   bool            // its directory went in the middle of a run or a delete: when it is back, the next run does not assume that its start-up has completed
	lastRun *view.ModuleRun // published, so it is replaced and never changed
	loop    string          // why the run that is delayed is part of a loop
}

// newModule makes a module, disabled.
func newModule(p *program, dir addons.Module, section *values.Section) *module {
	m := &module{module: dir, delayed: time.NewTimer(0)}
	m.owner = newOwner(m, p, dir.Name, dir.Root, p.Log.With("module", dir.Name), section)
	m.life = life[view.Phase]{"module", m.log, modulePhases(), view.Disabled}
	return m
}

// Receive implements actor.Actor.
func (m *module) Receive(ctx actor.Context) {
	ran := m.Runs.Len() > 0
	if !m.owner.receive(ctx) {
		m.receive(ctx)
	}
	// What runs have reported that outlived their module is removed (I9): Helm is not cancelled, and a hook may succeed
	// while it is being killed.
	if ran && m.Runs.Len() == 0 && m.phase == view.Disabled {
		m.program.Metrics.ForgetModule(m.name, nil)
	}
	m.publish() // every message may have changed what others are shown
}

// receive handles the messages that only modules understand.
func (m *module) receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case messages.ExecuteTask:
		m.execute(ctx, msg.Task)
	case getHooks:
		m.answerHooks(ctx)
	case messages.SetModule:
		m.set(ctx, msg)
	case updateModule:
		m.update(ctx, msg)
	case driftDue:
		m.driftDue(ctx, msg)
	case messages.ConfirmPurge:
		m.allowed = msg.Value
		m.reconcile(ctx, messages.Cause{Activation: messages.ByConfigMap, Detail: kube.ConfirmPurgeAnnotation})
	case leaveDue:
		m.leaveDue(ctx, msg)
	case messages.Review:
		m.review(ctx, msg) // in all phases: what is configured refuses writes, on which the next phase may depend
	default:
		unhandled(ctx, m.log)
	}
}

// known implements applier: what the owner hands over, with what only a module has. Lists are
// copies, because the module changes its own while runs read these.
func (m *module) known() known {
	tree := m.program.Runs.Tree.Load() // first: when it is in force, the global values of its files are
	k := m.owner.known()
	if k.Module = m.module; tree != nil {
		k.GlobalFiles = tree.Global
	}
	k.Loaded, k.Started, k.Begun = m.loaded, m.started(), m.begun
	k.Maintenance, k.Allowed, k.Drifted = m.maintenance, m.allowed, m.drifted()
	k.Applied = m.phase == view.Ready && m.last.Action != "" && m.last.Action != helm.Held
	return k
}

// execute begins a task: steps 2 and 4 of the way of a task (docs/architecture.md), for a hook and
// for a module run. Tasks of a module that is switched off are ended as done (E12), except a
// delete. If the module is enabled again, Synchronization shows what hooks would have seen (E14).
func (m *module) execute(ctx actor.Context, t messages.Task) {
	j := m.job(t)
	a := &assignment{Job: j, queue: ctx.Sender()}
	a.failed = func(at supervisor.Attempt) { m.failed(a, at.Err) }
	switch t.Work.(type) {
	case messages.RunModule:
		m.executeRun(a, j)
	case messages.DeleteModule:
		if !m.off() || m.phase == view.Waiting { // switched on again since this was queued (E14); a reload finds out what is due
			ctx.Send(m.program.PID(convergePath), messages.RequestReload{Cause: t.Cause})
			break
		}
		m.become(view.Deleting)
		// Again, for a Helm action that ended after the module was suspended.
		m.forgetRelease()
		a.work = func(run *supervisor.Run) (any, error) { return j.DeleteModule(run) }
		a.succeeded, a.leaves, a.release = m.deleted, m.program.Isolate, true
	case messages.RunHook, messages.SynchronizeHook:
		if !m.off() {
			a.work = m.hookWork(j)
		}
	default:
		m.log.Error("task refused", "task", t.String(), "err", errNoSuchWork)
	}
	switch {
	case a.work == nil:
		refuse(ctx, t)
	case a.release:
		m.startAlone(ctx, a)
	default:
		m.start(ctx, a)
	}
}

// executeRun prepares a module run, if the phase allows one. The run needs the release for itself.
func (m *module) executeRun(a *assignment, j Job) {
	// A run that was queued before the module was disabled must not start it again, not even when its delete has failed
	// and is parked. Of a module that is suspended before its first run the phase does not say so.
	if m.off() && m.phase != view.Waiting || m.maintenance == values.Suspended {
		return
	}
	m.delayed.Stop() // this run sees what the delayed one was for
	m.drift.number++
	a.work = func(run *supervisor.Run) (any, error) { return j.runModule(run) }
	a.succeeded = func(ctx actor.Context, result any) { m.ran(ctx, a.Task, result) }
	a.begins, a.ended = m.runBegins, m.runEnded
	a.leaves, a.release = m.program.Isolate, true
}

// runBegins is called before each attempt at a run.
func (m *module) runBegins(t messages.Task, first bool) {
	switch m.phase {
	case view.Waiting:
		m.become(view.Starting)
	case view.Ready:
		m.become(view.Running)
	}
	if first {
		m.lastRun = &view.ModuleRun{Began: time.Now(), Causes: t.Cause.Chain()}
	}
}

// ran ends a module run that has succeeded. Untouched means maintenance: Helm was not asked, so
// nothing new is known of the release.
func (m *module) ran(ctx actor.Context, t messages.Task, result any) {
	outcome, _ := result.(moduleRan)
	if !outcome.Untouched {
		m.last = outcome.Release
		m.noteHeld(outcome.Release.Held)
		m.tellUnstable(t, outcome.Release)
		m.driftCorrected()
	}
	m.become(view.Ready)
	run := *m.lastRun // the old one is published
	run.Release = outcome.Describe()
	run.Unchanged = !outcome.Untouched && outcome.Release.Action == helm.Skipped && !outcome.Release.Unstable
	m.lastRun = &run
	if m.loop = ""; outcome.Changed { // G5.4: at once, as the next task
		again := m.program.NewTask(m.name, messages.RunModule{}, messages.By(messages.ByHook, "afterHelm hooks of "+m.name+" changed values", t.Cause).In(outcome.Trace))
		again.Reload, again.Trace = t.Reload, t.Trace
		m.runAgain(ctx, true, again)
	}
}

// patches implements applier: the section checks that a hook of a module touches nothing else (D20).
func (m *module) patches(r hooks.Result) (config, memory values.Patch, _ flagChanges, err error) {
	return r.ConfigPatch, r.ValuesPatch, flagChanges{}, nil
}

// committed implements applier (G14, G18). If the module has an enabled script, that is asked first: the new values
// may switch the module off (E6).
func (m *module) committed(ctx actor.Context, msg messages.ApplyHookResult, changed bool, _ flagChanges) {
	switch {
	case !changed || !msg.Triggers || m.off():
	case m.module.EnabledScript != "":
		m.program.enqueueUnlooped(ctx, m.log, false, m.program.NewTask(messages.Converge, messages.DiscoverModules{Modules: []string{m.name}}, msg.Cause))
	default:
		m.reconcile(ctx, msg.Cause)
	}
}

// reconcile implements applier: it queues a run, delayed if the cause goes round in a loop.
func (m *module) reconcile(ctx actor.Context, cause messages.Cause) {
	if !m.off() {
		m.runAgain(ctx, false, m.program.NewTask(m.name, messages.RunModule{}, cause))
	}
}

// publish shows the module on pages, in metrics and in its object of kind Module. It is noted as
// changed after the publication, so that readers of the note find the new status.
func (m *module) publish() {
	defer m.program.Changed.Note(m.name)
	changes := m.ofRelease()
	m.program.Inspector.Publish(m.program.Owner(m.name), view.ModuleStatus{
		Phase: m.phase, Order: m.module.Order, Hooks: len(m.hooks), Loaded: m.hooks, Release: m.last.Revision,
		Section: m.section, Values: m.section.Checksum()[:8], Failing: m.listFailing(), Parked: changes != nil && changes.out, LastRun: m.lastRun,
		Enabled: m.enabled(), Version: m.last.ChartVersion, AppVersion: m.last.AppVersion,
		Namespace: m.module.File.Namespace, Maintenance: m.maintenance, Drift: len(m.drift.named), Drifted: m.driftShown(), Held: m.held, Loop: m.loop,
	})
}

// owner is what a module and the global hooks have in common: it is the single writer of one
// section of values, has hooks, and supervises the runs of its tasks (owner.go, module_life.go).
type owner struct {
	self    applier // the actor whose part it is
	program *program
	name    string // module name, or messages.GlobalHooks
	log     *slog.Logger
	// workingDir is WORKING_DIR of its hooks: the root in which they are searched (C23).
	workingDir string
	limits     limits

	*supervisor.Runs                        // HandleFailure makes the owner their strategy
	tasks            map[string]*assignment // that have begun and not ended, by ID
	next             *assignment            // waits until the one that has the release has ended
	// left are the effects that held tasks have left, by ID.
	left map[string]map[step]effects

	// hooks are sorted by name, as they were found (C3).
	hooks    []hooks.Hook
	awaiting []*actor.PID // runs that wait for the Synchronizations of other queues
	ticks    bool         // these are over: schedules tick, although ticks before the end of the first converge are dropped (C14, G2)
	// settled are the bindings that nothing waits for: true when they are synchronized, false when they are deferred,
	// because their kind is missing or forbidden (C16).
	settled map[messages.BindingKey]bool

	section  *values.Section
	applying *application  // waits for ConfigSaved; nil when none does
	waiting  []application // behind the one that is being applied
}

func newOwner(self applier, p *program, name, workingDir string, log *slog.Logger, section *values.Section) *owner {
	return &owner{
		self: self, program: p, name: name, log: log, workingDir: workingDir, section: section,
		Runs: supervisor.NewRuns(p.System), tasks: map[string]*assignment{},
		left: map[string]map[step]effects{}, settled: map[messages.BindingKey]bool{},
	}
}

// receive handles the messages that all owners understand, and reports whether the message was one
// of them. The messages of runs come first: a run that has ended must be forgotten before anything
// else looks at it.
func (o *owner) receive(ctx actor.Context) bool {
	if o.Runs.Receive(ctx) {
		return true
	}
	switch msg := ctx.Message().(type) {
	case messages.ApplyHookResult:
		o.apply(ctx, application{msg: msg, from: ctx.Sender()})
	case messages.ConfigSaved:
		o.configSaved(ctx, msg)
	case messages.SetConfig:
		o.setConfig(msg)
	case messages.BindingSettled:
		o.bindingSettled(ctx, msg)
	case messages.AwaitSynchronized:
		o.await(ctx, msg)
	case messages.RetryNow:
		o.Runs.RetryNow()
	case messages.EndAttempts:
		o.endAttempts(msg)
	case handOver:
		ctx.Respond(handed{Known: o.self.known()})
	default:
		return false
	}
	return true
}

// reset forgets what belongs to an enabled module only (E11): its hooks, and the patches that they
// saved.
func (o *owner) reset() {
	o.hooks, o.awaiting, o.ticks = nil, nil, false
	clear(o.settled)
	clear(o.left)
	o.section = o.section.WithoutPatches()
}

// job makes what a run needs to run hooks of this owner.
func (o *owner) job(t messages.Task) Job {
	due := o.left[t.ID]
	if delete(o.left, t.ID); due == nil {
		due = map[step]effects{}
	}
	return Job{Shared: o.program.Runs, Owner: o.name, WorkingDir: o.workingDir, Task: t, Known: &known{}, Log: o.log, Limits: &o.limits, Due: due}
}

// known is the immutable value that an owner hands over to a run before each attempt and with each
// answer. Maps in it are copies. Modules add what only they know.
func (o *owner) known() known {
	return known{
		Global: o.program.Global.Load(), Own: o.section, Enabled: *o.program.Enabled.Load(),
		Hooks: o.hooks, Settled: maps.Clone(o.settled), Runs: o.Runs.Len(),
	}
}

// failed is called after each failed attempt. If files of the module have changed since they were loaded, no further
// attempt with these values can succeed: a reload compares them, and takes the place of the failing head. If they are
// gone, the module is forgotten: others may wait for it. It starts again if they are back by then.
func (m *module) failed(t *assignment, err error) {
	if t.release {
		m.program.Metrics.ModuleFailed(m.name, m.phase)
	}
	cause := messages.By(messages.ByFiles, "files of "+m.name+" changed during its run", t.Task.Cause)
	reload := messages.RequestReload{Cause: cause}
	_, changed := errors.AsType[*filesChanged](err)
	if m.module.Gone() {
		reload.Gone = m.name
	}
	if changed || reload.Gone != "" {
		m.program.Send(m.program.PID(convergePath), reload)
	}
}
