package messages

// SetMaintenance sets the maintenance mode of a module, empty for none (H15). Only
// converge sends it, so that the latest is always in force.
type SetMaintenance struct{ Mode string }

// SuspendModule cancels the tasks of a module that is about to be disabled, before the reload that
// deletes it (E11).
type SuspendModule struct{}

// ResumeModule undoes a SuspendModule.
type ResumeModule struct{}

// EnableModule notifies a module that the discovery has enabled it: its runs follow.
// CRDsDue: its first run begins with its CRDs, which the discovery could not install.
type EnableModule struct{ CRDsDue bool }

// ModuleDeleted notifies converge that nothing of a module is left in the cluster.
type ModuleDeleted struct{ Name string }

// RetryNow ends the delays of failed tasks (F8): the change may have removed the cause of their failures.
type RetryNow struct{}

// ForgetModule notifies a module actor that its directory is gone.
type ForgetModule struct{}

// RetireModule notifies a module that it is disabled while it is under maintenance.
type RetireModule struct{}
