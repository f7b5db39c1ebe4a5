package messages

// SetModule tells a module what people and scripts want of it. Only converge sends it, so that the latest is always in
// force.
type SetModule struct {
	// On: if not, the tasks of the module are cancelled at once, before the reload that deletes it (E11).
	On bool
	// Maintenance is the mode, empty for none (H15).
	Maintenance string
}

// EnableModule notifies a module that the discovery has enabled it: its runs follow.
// CRDsDue: its first run begins with its CRDs, which the discovery could not install.
type EnableModule struct{ CRDsDue bool }

// ModuleDeleted notifies converge that nothing of a module is left in the cluster.
type ModuleDeleted struct{ Name string }

// RetryNow ends the delays of failed tasks (F8): the change may have removed the cause of their failures.
type RetryNow struct{}

// ForgetModule notifies a module that it ends without a delete of its release: its directory is gone, or it is disabled
// while it is under maintenance.
type ForgetModule struct{}
