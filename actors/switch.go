package actors

import (
	"cmp"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/plan"
	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// set does what converge wants of the module.
func (m *module) set(ctx actor.Context, msg messages.SetModule) {
	m.setMaintenance(ctx, msg.Maintenance)
	switch m.crdsDue = m.crdsDue || msg.CRDsDue; msg.Want {
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
func (m *module) end(ctx actor.Context) {
	m.loading = loading{}
	m.discard()
	m.dropNext(ctx)
	m.runs.CancelAll(ctx, supervisor.ErrCancelled)
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
	m.end(ctx)
}

// forget ends everything of a module without deleting its release: its directory is gone, it is disabled under
// maintenance, or it starts again. It notes whether a run was under way, for the case that the directory comes back.
func (m *module) forget(ctx actor.Context) {
	if m.phase == view.Disabled {
		return
	}
	m.end(ctx)
	m.begun = m.begun || m.loaded && m.phase != view.Waiting
	m.clear(ctx)
	m.become(view.Disabled)
}

// clear ends the watches, schedules and queues of the module's hooks (G6.4), and forgets what belongs to an
// enabled module only (E11).
func (m *module) clear(ctx actor.Context) {
	m.delayed.Stop()
	m.drift.forget(ctx, m.runs)
	ctx.Send(m.program.PID(monitorsPath), messages.Unwatch{Owner: m.name})
	m.forgetRelease()
	ctx.Send(m.program.PID(schedulePath), messages.StopSchedules{Owner: m.name})
	m.program.Metrics.ForgetModule(m.name, m.hooks)
	m.late = true
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

// update takes over what the disk says now (P8). If only values.yaml files of the roots differ, failed tasks are retried at
// once, because the change may be the fix. Else the module starts from the beginning, because its hooks may be others; its
// release stays as it is.
func (m *module) update(ctx actor.Context, msg updateModule) {
	if !msg.Again {
		m.module = msg.Module
		m.onFiles(msg.Section)
		m.retryNow()
		return
	}
	held, allowed := m.held, m.allowed
	m.forget(ctx)
	m.held, m.allowed = held, allowed
	m.crdsDue = m.crdsDue || !msg.Module.SameFiles(m.module)
	m.module, m.section = msg.Module, msg.Section
}

// setMaintenance begins or ends maintenance. A Helm action in progress ends normally. CRDs that are
// left out meanwhile are compared by the first run afterwards. A module that is suspended (H27) ends what it does; tasks
// that are due meanwhile are kept, as while it is switched off.
func (m *module) setMaintenance(ctx actor.Context, mode string) {
	if mode == m.maintenance {
		return
	}
	m.log.Info("maintenance has changed", "mode", cmp.Or(mode, "none"), "before", cmp.Or(m.maintenance, "none"))
	if m.maintenance = mode; mode == "" {
		return
	}
	m.crdsDue = true
	m.drift.forget(ctx, m.runs)
	m.forgetRelease()
	switch {
	case mode != values.Suspended:
	case m.phase == view.Deleting: // a reload deletes what is left, afterwards
		m.end(ctx)
	case !m.off():
		m.suspend(ctx)
	}
}

// noteHeld notes whether the run that has ended was held back, and reports it once. A confirmation is valid once,
// and for exactly the objects that it names; one that came during the run is for the next.
func (m *module) noteHeld(hold *helm.Hold) {
	log, before := m.log, m.held
	if hold == nil {
		if m.held, m.allowed = "", ""; before != "" {
			log.Info("no upgrade is held back any longer")
		}
		return
	}
	if m.allowed != "" && m.allowed != hold.Confirm {
		log.Warn("a confirmation does not match the upgrade that is held back now; it is not used",
			"value", m.allowed, "want", hold.Confirm)
		m.allowed = ""
	}
	names := make([]string, len(hold.Objects))
	for i, o := range hold.Objects {
		names[i] = o.String()
	}
	confirm := m.program.ConfirmCommand(hold.Confirm)
	if m.held = plan.HeldUpgrade(names, hold.Why, confirm); m.held == before {
		return
	}
	log.Warn("an upgrade is held back until a person allows it, or the change is taken back",
		"objects", names[:min(len(names), 20)], "count", len(names), "why", hold.Why, "confirm", confirm)
	text := "module " + m.name + ": " + m.held
	m.program.Notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "UpgradeHeld", Message: text})
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
