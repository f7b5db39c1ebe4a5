package converge

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/addons"
	"addon-operator/messages"
)

// tellMaintenance sends modules their modes, if they are others than they know.
//
// A module under maintenance (H15) continues with its hooks, but its release is left alone: its
// runs leave Helm out, the healer does not know it, and when it is disabled, its hooks end and the
// release stays until maintenance is over. Converge alone knows both files and ConfigMap and so is
// the only sender; a run that is about to use Helm knows the mode from its module.
func (c *converge) tellMaintenance(ctx actor.Context) {
	for _, m := range c.catalog.Tree.Modules {
		if decide.Maintained(m, c.catalog.Maintenance) != c.catalog.modes[m.Name] {
			c.set(ctx, m, c.catalog.wanted(m))
		}
	}
}

// set tells a module what is wanted of it.
func (c *converge) set(ctx actor.Context, m addons.Module, on bool) {
	mode := decide.Maintained(m, c.catalog.Maintenance)
	c.catalog.modes[m.Name] = mode
	if !on {
		delete(c.catalog.knows, m.Name)
	}
	ctx.Send(c.program.Owner(m.Name), messages.SetModule{On: on, Maintenance: mode})
}

// maintenanceChanged sends the modes if they have changed. It returns the modules that must run
// because maintenance is over, and whether a reload is due, for deletes and purges that have
// waited.
func (c *converge) maintenanceChanged(ctx actor.Context) (run []string, reload bool) {
	before, now := c.catalog.Maintenance, decide.WithSuspended(c.catalog.configured, c.catalog.suspended)
	if maps.Equal(before, now) {
		return nil, false
	}
	c.catalog.Maintenance = now
	c.tellMaintenance(ctx)
	return c.catalog.MaintenanceEnds(before)
}

// suspensionChanged suspends modules, and runs those that are resumed (H27).
func (c *converge) suspensionChanged(ctx actor.Context, msg messages.SuspensionChanged) {
	var resumed []string
	for _, name := range slices.Sorted(maps.Keys(c.catalog.suspended)) {
		if !msg.Names[name] {
			resumed = append(resumed, name)
		}
	}
	c.catalog.suspended = msg.Names
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
