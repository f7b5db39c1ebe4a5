package actors

import (
	"maps"

	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// known is all that a run may know of its owner, as one value that is never written to. The owner
// hands it over before each attempt, and again with each answer to its run. So a run asks its owner
// for nothing that it has, and what it has checked is what it uses: nothing changes in between.
type known struct {
	// global and own are the sections of values (D2); those of global hooks are the same.
	global, own *values.Section
	enabled     []string // modules, in the order they run (D9)

	hooks        []hooks.Hook
	loaded       bool // the hooks of a module are asked for their configuration when it is enabled
	synchronized map[messages.BindingKey]bool
	deferred     map[messages.BindingKey]bool // their Synchronization is not waited for: it comes later

	// The rest is of modules only. started: the start-up execution was finished once since the
	// module was enabled (X13). begun: hooks may have run since it was last deleted.
	started, begun bool
	maintenance    string // the mode, empty for none (H15)
	crdsDue        bool   // CRDs were not installed under maintenance
	// gone are objects of the release that Helm must apply again, drifted those to put back.
	gone, drifted []helm.Object

	// changed: hooks of this attempt have changed the values of their owner.
	changed bool
}

// handed answers whatever a run asks its owner for. What the run knows from now on comes with it,
// also with an error.
type handed struct {
	known known
	err   error
}

// handOver asks an owner for what its runs know. A run asks when it has waited for others than its
// owner, so that a hook sees the values as they are when its process starts.
type handOver struct{}

// known is what an owner hands over; modules add to it.
func (o *owner) known() known {
	return known{
		global: o.program.global.Load(), own: o.section, enabled: o.program.enabledModules(),
		hooks: o.hooks, synchronized: maps.Clone(o.synchronized), deferred: maps.Clone(o.deferred),
	}
}

// enabledModules are those that the last discovery has enabled.
func (p *program) enabledModules() []string {
	if names := p.enabled.Load(); names != nil {
		return *names
	}
	return nil
}

// ask asks the owner of the run, and takes what it hands over.
func (j job) ask(run *supervisor.Run, question any) error {
	got, err := supervisor.Ask[handed](run, ownerPath(j.owner), question)
	if err != nil {
		return err
	}
	got.known.changed = got.known.changed || j.known.changed
	*j.known = got.known
	return got.err
}

// values are those that hooks of the owner see: merged ones, and the ConfigMap's alone (D2, D8).
// The list of enabled modules is added for hooks of modules only and never stored (D9).
func (k *known) values() (merged, config map[string]any) {
	merged = map[string]any{values.GlobalKey: k.global.Merged(), k.own.Key(): k.own.Merged()}
	config = map[string]any{values.GlobalKey: k.global.Config(), k.own.Key(): k.own.Config()}
	return merged, config
}
