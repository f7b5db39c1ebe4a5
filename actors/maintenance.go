package actors

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/addons"
	"addon-operator/messages"
	"addon-operator/values"
)

// A module under maintenance (H15) goes on with its hooks, but its release is left alone:
// its runs leave Helm out, the healer does not know it, and when it is disabled, its hooks
// end and the release stays until maintenance is over. Converge knows the modes and is the
// only one who sends them; a run that is about to use Helm knows the mode from its module.

// maintained is the mode of maintenance of a module: what the ConfigMap says wins over
// values.yaml files, also when it says none.
func maintained(m addons.Module, config map[string]string) string {
	if mode, ok := config[values.MaintenanceKey(m.Key)]; ok {
		return mode
	}
	return m.Maintenance
}

// untouchable returns which releases are under maintenance. One without a module directory
// has only the ConfigMap to speak for it.
func untouchable(all []addons.Module, config map[string]string) func(release string) bool {
	return func(release string) bool {
		for _, m := range all {
			if m.Name == release {
				return maintained(m, config) != ""
			}
		}
		key, err := values.Key(release)
		return err == nil && config[values.MaintenanceKey(key)] != ""
	}
}

// tellMaintenance sends all modules their modes.
func (c *converge) tellMaintenance(ctx actor.Context, config map[string]string) {
	for _, m := range c.state.tree.Modules {
		ctx.Send(c.program.owner(m.Name), messages.SetMaintenance{Mode: maintained(m, config)})
	}
}

// maintenanceChanged sends what is new of the modes in the ConfigMap. It returns the modules that
// must run because they are no longer under maintenance; reload is asked for when a
// release is concerned that no enabled module has: it may have to be deleted, or not.
func (c *converge) maintenanceChanged(ctx actor.Context, config map[string]string) (run []string, reload bool) {
	before := c.state.maintenance
	if maps.Equal(before, config) {
		return nil, false
	}
	was, is := untouchable(c.state.tree.Modules, before), untouchable(c.state.tree.Modules, config)
	c.tellMaintenance(ctx, config)
	for _, name := range slices.Sorted(maps.Keys(c.state.deployed)) {
		switch {
		case was(name) == is(name):
		case !slices.Contains(c.state.enabled, name):
			reload = true
		case was(name):
			run = append(run, name)
		}
	}
	return run, reload
}

// retireModule says to a module that it is disabled while it is under maintenance.
type retireModule struct{}

// retire ends what a module does without deleting its release.
func (m *module) retire(ctx actor.Context) {
	if m.state.phase == messages.Disabled && !m.state.wanted {
		return
	}
	m.forget(ctx)
	m.log.Info("module is disabled under maintenance: its release stays until maintenance is over", "mode", m.state.maintenance)
}

// setMaintenance begins or ends maintenance. A Helm action in progress ends as it would.
func (m *module) setMaintenance(ctx actor.Context, mode string) {
	if mode == m.state.maintenance {
		return
	}
	if mode == "" {
		m.log.Info("maintenance is over")
	} else {
		m.state.crdsDue = true
		m.forgetDrift(ctx)
		m.forgetRelease()
		m.log.Info("module is under maintenance: hooks go on, its release is left alone", "mode", mode)
	}
	m.state.maintenance = mode
}
