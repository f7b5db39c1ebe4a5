package actors

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/plan"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// set does what converge wants of the module.
func (m *module) set(ctx actor.Context, msg messages.SetModule) {
	m.setMaintenance(ctx, msg.Maintenance)
	switch msg.Want {
	case messages.Off:
		m.suspend(ctx)
	case messages.On:
		m.resume(ctx)
	case messages.Enabled:
		m.enable(ctx)
	case messages.Forgotten:
		m.forget(ctx)
	}
}

// deleted ends a delete. Nothing of the module is left but its static values, and under maintenance
// its release.
func (m *module) deleted(ctx actor.Context, result any) {
	if untouched, _ := result.(bool); untouched {
		m.forget(ctx)
		return
	}
	m.clear(ctx)
	m.begun = false
	m.become(view.Disabled)
	ctx.Send(m.program.PID(convergePath), messages.ModuleDeleted{Name: m.name})
	m.log.Info("module is deleted")
}

// end cancels what runs of the module, and what waits for that. A Helm action ends normally.
func (m *module) end() {
	m.loading = nil
	m.next = nil
	m.cancelAll()
}

// suspend ends what runs: the module is about to be disabled. A delete goes on. A module whose
// first run has not begun is disabled at once, so that it cannot begin; if it is switched on again,
// the reload that follows enables it.
func (m *module) suspend(ctx actor.Context) {
	if m.phase == view.Waiting {
		m.forget(ctx)
	}
	if m.off() {
		return
	}
	m.forgetRelease()
	m.become(view.Suspended)
	m.end()
}

// forget ends everything of a module without deleting its release: its directory is gone, it is disabled under
// maintenance, or it starts again. It notes whether a run was under way, for the case that the directory comes back.
func (m *module) forget(ctx actor.Context) {
	if m.phase == view.Disabled {
		return
	}
	m.end()
	m.begun = m.begun || m.loaded && m.phase != view.Waiting
	m.clear(ctx)
	m.become(view.Disabled)
}

// clear ends the watches, schedules and queues of the module's hooks (G6.4), and forgets what belongs to an
// enabled module only (E11).
func (m *module) clear(ctx actor.Context) {
	m.delayed.Stop()
	m.forgetDrift()
	ctx.Send(m.program.PID(monitorsPath), messages.Unwatch{Owner: m.name})
	m.forgetRelease()
	ctx.Send(m.program.PID(schedulePath), messages.StopSchedules{Owner: m.name})
	m.program.Metrics.ForgetModule(m.name, m.hooks)
	m.reset()
	m.loaded = false
	m.held, m.allowed = "", ""
	m.last = helm.Outcome{}
}

// enable begins to load the hooks at once, so that they are there when the first run begins. A
// module that was suspended is resumed.
func (m *module) enable(ctx actor.Context) {
	m.resume(ctx)
	if m.phase == view.Disabled {
		m.become(view.Waiting)
	}
	m.load(ctx)
}

// resume undoes suspend: the flag was switched back before the reload came (E14), or a person lets the module go on
// (H27). What ran was cancelled, and parts of the release may be gone, so the module starts from the beginning.
func (m *module) resume(ctx actor.Context) {
	if m.phase == view.Deleting || m.phase == view.Suspended && m.maintenance != values.Suspended {
		enabled := m.phase == view.Suspended
		m.forget(ctx)
		if enabled {
			m.log.Info("module starts again from the beginning")
			m.enable(ctx)
		}
	}
}

// update takes over what the disk says now (P8). If only values.yaml files of the roots differ, failed tasks are
// retried at once, because the change may be the fix. Else the module starts from the beginning, because its hooks may
// be others; its release stays as it is.
func (m *module) update(ctx actor.Context, msg updateModule) {
	m.workingDir = msg.Module.Root
	if !msg.Again {
		m.module = msg.Module
		m.onFiles(msg.Section)
		return
	}
	m.forget(ctx)
	m.module, m.section = msg.Module, msg.Section
}

// setMaintenance begins or ends maintenance. A Helm action in progress ends normally. A module that is suspended (H27)
// ends what it does; tasks that are due meanwhile are kept, as while it is switched off.
func (m *module) setMaintenance(ctx actor.Context, mode string) {
	if mode == m.maintenance {
		return
	}
	m.log.Info("maintenance has changed", "mode", cmp.Or(mode, "none"), "before", cmp.Or(m.maintenance, "none"))
	if m.maintenance = mode; mode == "" {
		return
	}
	m.forgetDrift()
	m.forgetRelease()
	switch {
	case mode != values.Suspended:
	case m.phase == view.Deleting: // a reload deletes what is left, afterwards
		m.end()
	case !m.off():
		m.suspend(ctx)
	}
}

// noteHeld notes whether the run that has ended was held back, and reports it once. A confirmation is valid once,
// and for exactly the objects that it names; one that came during the run is for the next.
func (m *module) noteHeld(hold *helm.Hold) {
	before := m.held
	if hold == nil {
		m.held, m.allowed = "", ""
		return
	}
	if m.allowed != "" && m.allowed != hold.Confirm {
		m.log.Warn("a confirmation does not match the upgrade that is held back now; it is not used", "value", m.allowed, "want", hold.Confirm)
		m.allowed = ""
	}
	if m.held = plan.HeldUpgrade(hold, m.program.ConfirmCommand(hold.Confirm)); m.held != before {
		m.log.Warn("an upgrade is held back until a person allows it, or the change is taken back", "what", m.held)
		m.program.Notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "UpgradeHeld", Message: "module " + m.name + ": " + m.held})
	}
}

// runEnded has the release forgotten if the run has ended under maintenance, or after the module was switched off:
// whatever Helm did before that began.
func (m *module) runEnded() {
	if m.maintenance != "" || m.off() {
		m.forgetRelease()
	}
}

// forgetRelease notifies the healer that no module owns the objects any more, so that it heals none of
// them.
func (m *module) forgetRelease() {
	m.program.Send(m.program.PID(healerPath), releaseApplied{Module: m.name})
}

// rests reports whether nothing changes the release now and it is under no maintenance: only then
// can drift be distinguished from work in progress.
func (m *module) rests() bool {
	return m.phase == view.Ready && m.maintenance == "" && m.last.Action != "" && m.ofRelease() == nil && m.next == nil
}

// loading loads the hooks of a module, in a run of its own: from the moment when a discovery has
// enabled the module, while the modules before it are still being installed. With many modules the
// questions for --config take as long as all hooks of the first converge. The runs of all modules
// take turns, so that hooks are asked in alphabetical order (C3); a module that needs its hooks at
// once does not wait for its turn.
type loading struct {
	needed   context.CancelFunc // ends the wait for its turn
	awaiting []*actor.PID       // runs that need the hooks
}

// answerHooks answers a run that needs the hooks, at once or when they are loaded. Of a module that is
// switched off only a cancelled run asks, and it gets an error; a delete, too, runs hooks, and gets
// them.
func (m *module) answerHooks(ctx actor.Context) {
	if !m.off() || m.phase == view.Deleting {
		m.load(ctx)
	}
	switch {
	case m.loaded:
		ctx.Respond(handed{Known: m.known()})
	case m.loading == nil:
		ctx.Respond(handed{Known: m.known(), Err: errNotLoaded})
	default:
		m.loading.awaiting = append(m.loading.awaiting, ctx.Sender())
		m.loading.needed() // hooks of others, which are not needed yet, may hang
	}
}

// load begins to load the hooks, unless that has begun. A failure is the answer to all who wait.
// There is no retry here: the module run that needs the hooks fails with it, and asks again at its
// next attempt.
func (m *module) load(ctx actor.Context) {
	if m.loaded || m.loading != nil {
		return
	}
	p, dir, failed := m.program, m.module, errNotLoaded
	turn, needed := context.WithCancel(context.Background())
	now := &loading{needed: needed}
	m.loading = now
	m.loads++
	m.Runs.Start(ctx, supervisor.Task{
		ID: "load-hooks-" + strconv.Itoa(m.loads), AllowFailure: true,
		Work: func(run *supervisor.Run) (any, error) {
			defer context.AfterFunc(run.Context(), needed)()
			run.Step("wait until other modules have loaded their hooks")
			if p.Loads.Acquire(turn, 1) == nil {
				defer p.Loads.Release(1)
			}
			run.Step("run hooks with --config")
			return p.Runs.LoadModuleHooks(run.Context(), dir)
		},
		Succeeded: func(ctx actor.Context, result any) {
			found, _ := result.([]hooks.Hook)
			m.hooks, m.loaded, failed = found, true, nil
			p.NameQueues(ctx, found) // before a task for one of these can come (F1)
		},
		Failed: func(a supervisor.Attempt) { failed = a.Err },
		Ended: func(ctx actor.Context, _ bool) {
			if needed(); m.loading != now {
				return // it was cancelled, and who waits now waits for another one
			}
			m.loading = nil
			for _, pid := range now.awaiting {
				ctx.Send(pid, handed{Known: m.known(), Err: failed})
			}
		},
	})
}

// errNotLoaded is the answer of a module that stops, or is switched off.
var errNotLoaded = errors.New("the module was stopped or disabled before its hooks were loaded")

// hookWork is the work of a task that runs one hook; nil if the hook is gone since (P8), or its Synchronization is
// needless.
func (o *owner) hookWork(j Job) func(*supervisor.Run) (any, error) {
	for _, hook := range o.hooks {
		if hook.Name != j.Task.Hook() {
			continue
		}
		switch w := j.Task.Work.(type) {
		case messages.RunHook:
			return func(run *supervisor.Run) (any, error) { return nil, hookJob{j, run, hook}.Run(w) }
		case messages.SynchronizeHook:
			if !o.needless(hook, w) {
				return func(run *supervisor.Run) (any, error) { return nil, hookJob{j, run, hook}.Synchronize(w) }
			}
		}
	}
	return nil
}

// bindingSettled notes that a binding needs no further Synchronization run, or is not waited for. If it was deferred,
// the module has run without this hook, and runs again (Late). Reports of runs that were cancelled count for nothing.
func (o *owner) bindingSettled(ctx actor.Context, msg messages.BindingSettled) {
	if !o.Runs.Lives(msg.Task) {
		return // the owner starts again
	}
	o.settled[msg.Binding] = o.settled[msg.Binding] || !msg.Deferred
	if msg.Late {
		o.self.reconcile(ctx, messages.Cause{Activation: messages.BySync, Detail: msg.Binding.Hook})
	}
	o.answerAwaiting(ctx)
}

// await remembers a run that waits for the Synchronizations in other queues, and queues those that
// are missing there (F16).
func (o *owner) await(ctx actor.Context, msg messages.AwaitSynchronized) {
	if !o.Runs.Lives(msg.Task) {
		return
	}
	o.awaiting = append(o.awaiting, ctx.Sender())
	for _, hook := range o.hooks {
		for _, w := range synchronizations(hook) {
			queue := hook.Config.Kubernetes[w.Bindings[0]].Queue
			synchronized, settled := o.settled[bindingKey(hook, w.Bindings[0])]
			if queue == hooks.MainQueue || settled && !synchronized || o.allSynchronized(hook, w) {
				continue
			}
			t := o.program.NewTask(o.name, w, messages.Cause{Activation: messages.BySync})
			t.Queue, t.Trace = queue, msg.Trace
			o.program.Enqueue(ctx, false, t)
		}
	}
	o.answerAwaiting(ctx)
}

// answerAwaiting answers the waiting runs, and starts the schedules, once each binding with waitForSynchronization has
// succeeded or is deferred. Those of main are not looked at: the run executes them itself.
func (o *owner) answerAwaiting(ctx actor.Context) {
	for _, hook := range o.hooks {
		for i, b := range hook.Config.Kubernetes {
			if _, settled := o.settled[bindingKey(hook, i)]; b.WaitForSynchronization && b.Queue != hooks.MainQueue && !settled {
				return
			}
		}
	}
	for _, run := range o.awaiting {
		ctx.Send(run, handed{Known: o.self.known()})
		o.ticks = true
		ctx.Send(o.program.PID(schedulePath), messages.StartSchedules{Owner: o.name, Hooks: o.hooks})
	}
	o.awaiting = nil
}

func (o *owner) allSynchronized(hook hooks.Hook, w messages.SynchronizeHook) bool {
	return !slices.ContainsFunc(w.Bindings, func(i int) bool { return !o.settled[bindingKey(hook, i)] })
}

// needless reports whether a queued Synchronization has succeeded already and is no repetition
// (C15): after two switches of a module the same one may wait twice.
func (o *owner) needless(hook hooks.Hook, w messages.SynchronizeHook) bool {
	if slices.ContainsFunc(w.Bindings, func(i int) bool { return i >= len(hook.Config.Kubernetes) }) {
		return true // the hook is another one since
	}
	return !w.Again && o.allSynchronized(hook, w)
}
