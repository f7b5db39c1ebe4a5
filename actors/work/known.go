package work

import (
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// Known is all that a run may know of its owner, as one value that is never written to. The owner
// hands it over before each attempt, and again with each answer. So a run does not ask its owner
// for what it has, and what it has checked is what it uses: nothing changes in between.
type Known struct {
	// Global and Own are the sections of values (D2); those of global hooks are the same.
	Global, Own *values.Section
	Enabled     []string // modules, in the order they run (D9)

	Hooks  []hooks.Hook
	Loaded bool // the hooks of a module are asked for their configuration when it is enabled
	// Settled are bindings: true when they are synchronized, false when that is deferred, and not waited for.
	Settled map[messages.BindingKey]bool

	// The rest is of modules only. Module is what the values come from, and GlobalFiles is where those of Global do.
	Module      addons.Module
	GlobalFiles addons.Global
	// Started: the start-up execution was finished once since the
	// module was enabled (X13). Begun: hooks may have run since it was last deleted.
	Started, Begun bool
	Maintenance    string // the mode, empty for none (H15)
	CRDsDue        bool   // CRDs are to be compared before hooks
	Applied        bool   // Helm was asked since the module was enabled
	Drifted        []helm.Object
	Allowed        string // deletions that a person has allowed, as helm.Module.Allowed

	// Changed: hooks of this attempt have changed the values of their owner.
	Changed bool
	// Out: the attempt is outside of its queue, which continues.
	Out bool
}

// Handed answers whatever a run asks its owner for. What the run knows from now on comes with it,
// also with an error.
type Handed struct {
	Known Known
	Err   error
}

// HandOver asks an owner for what its runs know. A run asks when it has waited for others than its
// owner, so that a hook sees the values as they are when its process starts.
type HandOver struct{}

// Refresh takes what the owner knows now.
func (j Job) Refresh(run *supervisor.Run) error { return j.ask(run, HandOver{}) }

// ask asks the owner of the run, and takes what it hands over.
func (j Job) ask(run *supervisor.Run, question any) error {
	got, err := supervisor.Ask[Handed](run, OwnerPath(j.Owner), question)
	if err != nil {
		return err
	}
	got.Known.Changed, got.Known.CRDsDue = got.Known.Changed || j.Known.Changed, got.Known.CRDsDue || j.Known.CRDsDue
	*j.Known = got.Known
	return got.Err
}

// Values are those that hooks of the owner see: merged ones, and the ConfigMap's alone (D2, D8).
// The list of enabled modules is added for hooks of modules only and never stored (D9).
func (k *Known) Values() (merged, config map[string]any) {
	merged = map[string]any{values.GlobalKey: k.Global.Merged(), k.Own.Key(): k.Own.Merged()}
	config = map[string]any{values.GlobalKey: k.Global.Config(), k.Own.Key(): k.Own.Config()}
	return merged, config
}
