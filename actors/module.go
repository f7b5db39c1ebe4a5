package actors

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// module owns the values, hooks, phase and release of one module and supervises its
// runs. It lives as long as the process: disabling is a message, never a stop, because
// a new actor of the same name would get late messages of the old one.
type module struct {
	owner
	state   *moduleState
	delayed *time.Timer // of a run that goes round in circles
	loading loading
}

// moduleState survives a crash of the actor.
type moduleState struct {
	ownerState
	module  addons.Module
	phase   view.Phase
	loaded  bool            // its hooks were asked for their configuration
	loads   int             // counts these attempts
	started bool            // its start-up execution was finished once (X13)
	begun   bool            // it was forgotten in the middle of a run or a delete
	wanted  bool            // the last discovery has enabled it
	missed  []messages.Task // while it was suspended
	// awaitQuiet are runs that wait until nothing of the module runs.
	awaitQuiet []*actor.PID
	last       helm.Outcome
	lastRun    *view.ModuleRun
	succeeded  time.Time // the last run that did
	failed     time.Time

	maintenance string   // the mode, empty for none
	fights      []string // with whom heals of the release are in a fight
	gone        []helm.Object
	crdsDue     bool // CRDs were not looked at under maintenance
	drift       driftState
}

// adoptModule gives a module actor the module's directory, which came back after it was
// removed or has another name, and the values in it.
type adoptModule struct {
	module  addons.Module
	section *values.Section
}

// newModule makes a module; warm are its hooks when a follower has loaded them, else nil.
func newModule(p *program, m addons.Module, section *values.Section, warm []hooks.Hook) actor.Producer {
	state := &moduleState{module: m, phase: view.Disabled}
	state.section = section
	state.reset()
	if warm != nil {
		state.hooks, state.loaded = warm, true
		p.Metrics.Hooks.Loaded(m.Name, warm)
	}
	return func() actor.Actor {
		m := &module{owner: *newOwner(p, m.Name, m.Root, &state.ownerState), state: state}
		m.hand = m.known
		return m
	}
}

// reset forgets what belongs to an enabled module only (E11).
func (s *moduleState) reset() {
	s.hooks, s.loaded, s.started = nil, false, false
	s.synchronized, s.deferred = map[messages.BindingKey]bool{}, map[messages.BindingKey]bool{}
	s.section = s.section.WithoutPatches()
	s.unfinished.clear()
	s.last, s.missed, s.fights = helm.Outcome{}, nil, nil
	s.succeeded, s.failed = time.Time{}, time.Time{}
}

// Receive implements actor.Actor.
func (m *module) Receive(ctx actor.Context) {
	if m.owner.receive(ctx, m) {
		m.answerQuiet(ctx)
		m.publish()
		return
	}
	switch msg := ctx.Message().(type) {
	case messages.ExecuteTask:
		m.execute(ctx, msg.Task)
	case messages.GetValues:
		ctx.Respond(m.values())
		return
	case getHooks:
		m.getHooks(ctx)
	case startedUp:
		if m.Lives(msg.task) { // else the schedules have just been stopped
			ctx.Send(m.program.PID(schedulePath), messages.StartSchedules{Owner: m.name, Hooks: m.state.hooks})
		}
	case messages.EnableModule:
		m.resume(ctx)
		if !m.state.wanted { // its hooks may have been loaded while another replica led
			m.nameQueues(ctx)
		}
		m.state.wanted = true
		m.loadHooks(ctx)
	case messages.SuspendModule:
		m.suspend(ctx)
	case messages.ResumeModule:
		m.resume(ctx)
	case adoptModule:
		m.forget(ctx) // its hooks have other paths, and may be other hooks
		m.state.module, m.state.section = msg.module, msg.section
	case forgetModule:
		m.forget(ctx)
	case messages.GetDrift:
		ctx.Respond(m.answerDrift(msg.Secrets))
		return
	case driftDue:
		m.driftDue(ctx, msg)
	case retireModule:
		m.retire(ctx)
	case objectsGone:
		m.state.gone = append(m.state.gone, msg.objects...)
	case objectsBack:
		m.objectsBack(msg)
	case fought:
		m.state.fights = msg.fights
	case messages.SetMaintenance:
		m.setMaintenance(ctx, msg.Mode)
	case scriptAgreed:
		m.runChanged(ctx, msg.cause)
	case awaitQuiet:
		m.state.awaitQuiet = append(m.state.awaitQuiet, ctx.Sender())
	default:
		unhandled(ctx, m.log)
	}
	m.answerQuiet(ctx)
	m.publish()
}

// known implements owner.hand.
func (m *module) known() known {
	k := m.owner.known()
	k.loaded, k.started, k.begun = m.state.loaded, m.state.started, m.state.begun
	k.maintenance, k.crdsDue = m.state.maintenance, m.state.crdsDue
	k.gone = slices.Clone(m.state.gone)
	if m.program.Drift == DriftCorrect {
		k.drifted = m.state.drift.correcting
	}
	return k
}

// execute begins a task. Tasks of a module that is switched off are dropped as done (E12).
func (m *module) execute(ctx actor.Context, t messages.Task) {
	j := m.moduleJob(t)
	a := assignment{job: j.job, queue: ctx.Sender()}
	switch work := t.Work.(type) {
	case messages.RunModule:
		m.executeRun(ctx, a, j)
	case messages.DeleteModule:
		if !m.off() { // switched on again since this was queued (E14); a reload finds out what is due
			refuse(ctx, t)
			ctx.Send(m.program.PID(convergePath), messages.ReloadModules{Cause: t.Cause})
			return
		}
		m.become(view.Deleting)
		// Again, for a Helm action that ended after the module was suspended.
		m.forgetRelease()
		a.work = func(run *supervisor.Run) (any, error) { return j.deleteModule(run) }
		a.succeeded, a.failed, a.parks, a.release = m.deleted, m.countFailure, m.program.Isolate, true
		m.startAlone(ctx, a)
	case messages.CheckDrift:
		m.executeDrift(ctx, a, j)
	case messages.RunHook:
		m.executeHook(ctx, a, work.Hook, func(run *supervisor.Run, hook hooks.Hook) error { return j.runHook(run, hook, work) })
	case messages.SynchronizeHook:
		if m.needless(work) {
			refuse(ctx, t)
			return
		}
		m.executeHook(ctx, a, work.Hook, func(run *supervisor.Run, hook hooks.Hook) error { return j.synchronize(run, hook, work) })
	default:
		m.log.Error("task refused", "task", t.String(), "err", errNoSuchWork)
		refuse(ctx, t)
	}
}

// moduleJob makes what a run needs to take the module through its life. The directory, and
// the root it lies in, may be others than at the start.
func (m *module) moduleJob(t messages.Task) moduleJob {
	j := moduleJob{m.job(t), m.state.module}
	j.workingDir = m.state.module.Root
	return j
}

// executeHook begins a task that runs one hook.
func (m *module) executeHook(ctx actor.Context, a assignment, name string, work func(*supervisor.Run, hooks.Hook) error) {
	hook, err := m.hook(name)
	if err != nil || m.off() {
		m.missed(a.task)
		m.unqueued(a.task)
		refuse(ctx, a.task)
		return
	}
	a.work = func(run *supervisor.Run) (any, error) { return nil, work(run, hook) }
	a.cancelled = func(ctx actor.Context) {
		ctx.Send(a.queue, messages.SetAside{ID: a.task.ID}) // nothing: all of it is kept here, or due again, or dropped
		m.missed(a.task)
		if !m.off() && !m.Ending() { // switched on again while the run was ending
			m.again(ctx, a.task)
		}
	}
	m.start(ctx, a)
}

func (m *module) executeRun(ctx actor.Context, a assignment, j moduleJob) {
	switch {
	case !m.state.wanted || m.state.phase == view.Suspended || m.state.phase == view.Deleting:
		// A run that was queued before the module was disabled must not start it again, not
		// even when its delete has failed and is parked.
		refuse(ctx, a.task)
		return
	case m.state.started:
		m.become(view.Running)
	default:
		m.become(view.Starting)
	}
	m.stopDelayed()
	m.stopDrift(ctx)
	m.state.lastRun = &view.ModuleRun{Began: time.Now(), Causes: a.task.Cause.Chain()}
	a.work = func(run *supervisor.Run) (any, error) { return j.runModule(run) }
	a.succeeded = func(ctx actor.Context, result any) { m.ran(ctx, a.task, result) }
	a.cancelled = m.runEnded
	a.failed, a.parks, a.release = m.countFailure, m.program.Isolate, true
	a.begins = func() { m.program.Send(m.program.PID(healerPath), runBegan{m.name}) }
	m.startAlone(ctx, a)
}

// ran ends a module run.
func (m *module) ran(ctx actor.Context, t messages.Task, result any) {
	outcome, _ := result.(moduleRan)
	m.runEnded(ctx)
	m.state.started, m.state.succeeded = true, time.Now()
	if !outcome.untouched {
		m.state.last, m.state.crdsDue = outcome.release, false
		m.tellUnstable(t, outcome.release)
		m.state.drift.correcting = nil
		m.seekDriftLater(driftMoment)
	}
	if m.state.phase != view.Suspended {
		m.become(view.Ready)
	}
	if m.state.lastRun != nil {
		run := *m.state.lastRun // the old one is published
		run.Release = outcome.describe()
		m.state.lastRun = &run
	}
	if outcome.changed { // G5.4: at once, as the next task
		again := m.program.task(m.name, messages.RunModule{}, messages.By(messages.ByHook, "afterHelm hooks of "+m.name+" changed values", t.Cause).In(outcome.trace))
		again.Reload, again.Trace = t.Reload, t.Trace
		m.runAgain(ctx, true, again)
	}
}

func (m *module) runEnded(ctx actor.Context) {
	if m.state.maintenance != "" || m.off() { // whatever Helm did before that began
		m.forgetRelease()
		return
	}
	ctx.Send(m.program.PID(healerPath), runEnded{m.name, len(m.state.hooks) > 0})
}

// forgetRelease says to the healer that the objects have no owner any more.
func (m *module) forgetRelease() {
	m.state.gone = nil
	m.program.Send(m.program.PID(healerPath), moduleGone{m.name})
}

// objectsBack notes what Helm has applied again.
func (m *module) objectsBack(msg objectsBack) {
	m.state.gone = slices.DeleteFunc(m.state.gone, func(o helm.Object) bool { return slices.Contains(msg.objects, o) })
}

func (m *module) countFailure(supervisor.Attempt) {
	m.state.failed = time.Now()
	m.program.Metrics.Modules.Failed(m.name, m.state.phase)
}

// describe says what became of the release.
func (r moduleRan) describe() string {
	switch o := r.release; {
	case r.untouched:
		return "left alone: the module is under maintenance"
	case o.Action == "":
		return "no chart"
	default:
		return fmt.Sprintf("%s, revision %d: %s", o.Action, o.Revision, o.Reason)
	}
}

// become is the only way to change the phase.
func (m *module) become(to view.Phase) {
	if m.state.phase == to {
		return
	}
	m.log.Debug("phase", "from", m.state.phase, "to", to)
	m.state.phase = to
}

// patches implements applier: a hook of a module may touch its own section only (D20).
func (m *module) patches(r hooks.Result) (config, memory values.Patch, _ flagChanges, err error) {
	key := m.state.section.Key()
	if config, err = r.ConfigPatch.ForModule(key); err != nil {
		return nil, nil, flagChanges{}, fmt.Errorf("config values patch: %w", err)
	}
	if memory, err = r.ValuesPatch.ForModule(key); err != nil {
		return nil, nil, flagChanges{}, fmt.Errorf("values patch: %w", err)
	}
	return config, memory, flagChanges{}, nil
}

// committed implements applier: event 14 (G14, G18). An enabled script is asked again first (E6).
func (m *module) committed(ctx actor.Context, msg messages.ApplyHookResult, changed bool, _ flagChanges) {
	switch {
	case !changed || m.off():
	case m.state.module.EnabledScript != "":
		ctx.Send(m.program.PID(convergePath), sectionChanged{m.name, msg.Cause, msg.Triggers})
	case msg.Triggers:
		m.runChanged(ctx, msg.Cause)
	}
}

// runChanged queues the run of a module whose values have changed.
func (m *module) runChanged(ctx actor.Context, cause messages.Cause) {
	if !m.off() {
		m.runAgain(ctx, false, m.program.task(m.name, messages.RunModule{}, cause))
	}
}

// late implements applier.
func (m *module) late(ctx actor.Context, cause messages.Cause) {
	if !m.off() {
		m.program.enqueue(ctx, false, m.program.task(m.name, messages.RunModule{}, cause))
	}
}

// HandleFailure implements actor.SupervisorStrategy; a failure is no message, so the
// status is published here.
func (m *module) HandleFailure(system *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, stats *actor.RestartStatistics, reason, message any) {
	m.owner.HandleFailure(system, sup, child, stats, reason, message)
	m.publish()
}

func (m *module) publish() {
	phase := m.state.phase
	if phase == view.Disabled && m.state.wanted {
		phase = view.Waiting
	}
	m.program.Inspector.Publish(m.program.owner(m.name), view.ModuleStatus{
		Phase: phase, Order: m.state.module.Order, Hooks: len(m.state.hooks), Runs: m.Runs.Len(), Release: m.state.last.Revision,
		Values: m.state.section.Checksum()[:8], Failing: m.listFailing(), Parked: len(m.parked) > 0, LastRun: m.state.lastRun,
		Enabled: m.state.wanted, Version: m.state.last.ChartVersion, Succeeded: m.state.succeeded, Failed: m.state.failed,
		Maintenance: m.state.maintenance, Drift: m.state.drift.told, Fights: m.state.fights,
	})
}
