package modules

import (
	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// retire ends what a module does without deleting its release: its directory is gone, or it is disabled under
// maintenance.
func (m *module) retire(ctx actor.Context) {
	if m.life.phase == view.Disabled {
		return
	}
	if m.forget(ctx); m.life.maintenance != "" {
		m.log.Info("module is disabled under maintenance: its release stays until maintenance is over", "mode", m.life.maintenance)
	}
}

// setMaintenance begins or ends maintenance. A Helm action in progress ends normally. CRDs that are
// left out meanwhile are compared by the first run afterwards.
func (m *module) setMaintenance(ctx actor.Context, mode string) {
	if mode == m.life.maintenance {
		return
	}
	was := m.life.maintenance
	m.life.maintenance = mode
	if mode == "" {
		if was == values.Suspended {
			m.log.Info("module is no longer suspended")
		} else {
			m.log.Info("maintenance is over")
		}
		return
	}
	m.crdsDue = true
	m.drift.forget(ctx, m.owner.tasks.runs)
	m.release.forget()
	if mode == values.Suspended {
		m.hold(ctx)
		m.log.Info("module is suspended: it does not run, its hooks wait, and its release is left alone")
		return
	}
	m.log.Info("module is under maintenance: its hooks continue, its release is left alone", "mode", mode)
}

// hold ends what a module does until it is no longer suspended (H27). A Helm action ends normally.
// Tasks that are due meanwhile are kept, as while a module is switched off.
func (m *module) hold(ctx actor.Context) {
	switch {
	case m.life.phase == view.Deleting:
		m.owner.tasks.runs.CancelAll(ctx, supervisor.ErrCancelled) // a reload deletes what is left, afterwards
	case !m.life.off():
		m.suspend(ctx)
	}
}
