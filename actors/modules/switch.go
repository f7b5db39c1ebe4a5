package modules

import (
	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// deleted ends a delete. Nothing of the module is left but its static values, and under maintenance
// its release.
func (m *module) deleted(ctx actor.Context, result any) {
	if untouched, _ := result.(bool); untouched {
		m.retire(ctx)
		return
	}
	m.clear(ctx)
	m.begun = false
	m.life.become(view.Disabled)
	ctx.Send(m.program.PID(work.ConvergePath), messages.ModuleDeleted{Name: m.name})
	m.log.Info("module is deleted")
}

// suspend cancels what runs: the module is about to be disabled. A delete goes on. A module whose
// first run has not begun is disabled at once, so that it cannot begin; if it is switched on again,
// the reload that follows enables it.
func (m *module) suspend(ctx actor.Context) {
	if m.life.phase == view.Waiting {
		m.forget(ctx)
	}
	if m.life.off() {
		return
	}
	m.release.forget()
	m.life.become(view.Suspended)
	m.loading.loadAttempt = loadAttempt{} // it is cancelled, and who waits for it
	m.owner.values.discard()
	m.owner.tasks.dropNext(ctx)
	m.owner.tasks.runs.CancelAll(ctx, supervisor.ErrCancelled)
}

// forget ends everything of a module whose directory is gone or that is retired, without deleting
// its release. It notes whether a run was under way, for the case that the directory comes back.
func (m *module) forget(ctx actor.Context) {
	m.loading.loadAttempt = loadAttempt{} // it is cancelled, and who waits for it
	m.owner.values.discard()
	m.owner.tasks.dropNext(ctx)
	m.owner.tasks.runs.CancelAll(ctx, supervisor.ErrCancelled)
	m.begun = m.begun || m.loading.done && m.life.phase != view.Disabled && m.life.phase != view.Waiting
	m.clear(ctx)
	m.life.become(view.Disabled)
}

// clear ends the watches, schedules and queues of the module's hooks (G6.4), and forgets what belongs to an
// enabled module only (E11).
func (m *module) clear(ctx actor.Context) {
	m.delayed.stop()
	m.drift.forget(ctx, m.owner.tasks.runs)
	ctx.Send(m.program.PID(work.MonitorsPath), messages.Unwatch{Owner: m.name})
	m.release.forget()
	ctx.Send(m.program.PID(work.SchedulePath), messages.StopSchedules{Owner: m.name})
	m.program.Metrics.ForgetModule(m.name, m.owner.hooks.all)
	m.life.late = true
	m.owner.reset()
	m.loading.done = false
	m.release.held, m.release.allowed = "", ""
	m.release.last = helm.Outcome{}
}

// enable begins to load the hooks at once, so that they are there when the first run begins. A
// module that was suspended is resumed.
func (m *module) enable(ctx actor.Context) {
	m.resume(ctx)
	if m.life.phase == view.Disabled {
		m.life.become(view.Waiting)
	}
	m.loading.begin(ctx)
}

// resume undoes suspend: the flag was switched back before the reload came (E14), or a person lets the module go on
// (H27). What ran was cancelled, and parts of the release may be gone, so the module starts from the beginning.
func (m *module) resume(ctx actor.Context) {
	if m.life.phase == view.Deleting || m.life.phase == view.Suspended && m.life.maintenance != values.Suspended {
		enabled := m.life.phase == view.Suspended
		m.forget(ctx)
		if enabled {
			m.log.Info("module starts again from the beginning")
			m.enable(ctx)
		}
	}
}

// update takes over what the values.yaml files of the roots say now (P8). Failed tasks are retried at once: the change
// may be the fix.
func (m *module) update(msg work.UpdateModule) {
	m.module = msg.Module
	m.owner.values.onFiles(msg.Section)
	m.owner.tasks.retryNow()
}
