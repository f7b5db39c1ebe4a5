package actors

import (
	"maps"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// A module under maintenance (H15) goes on with its hooks, but its release is left alone:
// its runs leave Helm out, the healer does not know it, and when it is disabled, its hooks
// end and the release stays until maintenance is over. Converge knows the modes and is the
// only one who sends them; a run that is about to use Helm knows the mode from its module.

// tellMaintenance sends all modules their modes.
func (c *converge) tellMaintenance(ctx actor.Context, config map[string]string) {
	for _, m := range c.tree.Modules {
		ctx.Send(c.program.owner(m.Name), messages.SetMaintenance{Mode: decide.Maintained(m, config)})
	}
}

// maintenanceChanged sends what is new of the modes in the ConfigMap. It returns the modules that
// must run, and whether a reload is due.
func (c *converge) maintenanceChanged(ctx actor.Context, config map[string]string) (run []string, reload bool) {
	if maps.Equal(c.maintenance, config) {
		return nil, false
	}
	c.tellMaintenance(ctx, config)
	return decide.Reload{Tree: c.tree, Enabled: c.enabled, Deployed: c.deployed, Maintenance: config}.MaintenanceEnds(c.maintenance)
}

// retireModule says to a module that it is disabled while it is under maintenance.
type retireModule struct{}

// retire ends what a module does without deleting its release.
func (m *module) retire(ctx actor.Context) {
	if m.life.phase == view.Disabled {
		return
	}
	m.forget(ctx)
	m.log.Info("module is disabled under maintenance: its release stays until maintenance is over", "mode", m.maintenance)
}

// setMaintenance begins or ends maintenance. A Helm action in progress ends as it would.
func (m *module) setMaintenance(ctx actor.Context, mode string) {
	if mode == m.maintenance {
		return
	}
	if mode == "" {
		m.log.Info("maintenance is over")
	} else {
		m.wantCRDs(true)
		m.forgetDrift(ctx)
		m.forgetRelease()
		m.log.Info("module is under maintenance: hooks go on, its release is left alone", "mode", mode)
	}
	m.maintenance = mode
}
