package actors

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// tellMaintenance sends all modules their modes.
//
// A module under maintenance (H15) continues with its hooks, but its release is left alone: its
// runs leave Helm out, the healer does not know it, and when it is disabled, its hooks end and the
// release stays until maintenance is over. Converge alone knows both files and ConfigMap and so is
// the only sender; a run that is about to use Helm knows the mode from its module.
func (c *converge) tellMaintenance(ctx actor.Context, config map[string]string) {
	for _, m := range c.catalog.tree.Modules {
		ctx.Send(c.program.owner(m.Name), messages.SetMaintenance{Mode: decide.Maintained(m, config)})
	}
}

// maintenanceChanged sends the modes if they have changed. It returns the modules that must run
// because maintenance is over, and whether a reload is due, for deletes and purges that have
// waited.
func (c *converge) maintenanceChanged(ctx actor.Context) (run []string, reload bool) {
	before, now := c.catalog.maintenance, decide.WithSuspended(c.catalog.configured, c.catalog.suspended)
	if maps.Equal(before, now) {
		return nil, false
	}
	c.catalog.maintenance = now
	c.tellMaintenance(ctx, now)
	return decide.Reload{Tree: c.catalog.tree, Enabled: c.catalog.enabled, Deployed: c.catalog.deployed, Maintenance: now}.MaintenanceEnds(before)
}

// suspensionChanged suspends modules, and runs those that are resumed (H27).
func (c *converge) suspensionChanged(ctx actor.Context, msg suspensionChanged) {
	var resumed []string
	for _, name := range slices.Sorted(maps.Keys(c.catalog.suspended)) {
		if !msg.names[name] {
			resumed = append(resumed, name)
		}
	}
	c.catalog.suspended = msg.names
	_, reload := c.maintenanceChanged(ctx)
	c.switchModules(ctx) // those that go on are no longer suspended
	cause := messages.Cause{Activation: messages.ByHand, Detail: "spec.suspend of objects of kind Module"}
	switch {
	case !c.reloads.phase.begun(): // the first reload sees it
	case reload:
		c.reloads.request(ctx, cause)
	default:
		c.catalog.run(ctx, resumed, cause)
	}
}

// retireModule says to a module that it is disabled while it is under maintenance.
type retireModule struct{}

// retire ends what a module does without deleting its release.
func (m *module) retire(ctx actor.Context) {
	if m.life.phase == view.Disabled {
		return
	}
	m.forget(ctx)
	m.log.Info("module is disabled under maintenance: its release stays until maintenance is over", "mode", m.life.maintenance)
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
		m.log.Info(map[bool]string{false: "maintenance is over", true: "module is no longer suspended"}[was == values.Suspended])
		return
	}
	m.crds.want(true)
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
