package messages

// StartUp begins the first converge.
type StartUp struct{}

// ShutDown stops the operator in order.
type ShutDown struct{}

// SetMaintenance sets the maintenance mode of a module, empty for none (H15). Only
// converge sends it, so that the latest is always in force.
type SetMaintenance struct{ Mode string }

// SuspendModule cancels the tasks of a module that is about to be disabled, before the reload that
// deletes it (E11). ResumeModule undoes it.
type SuspendModule struct{}

// EnableModule notifies a module that the discovery has enabled it: its runs are on their way.
// CRDsDue: its first run begins with its CRDs, which the discovery could not install.
type EnableModule struct{ CRDsDue bool }

// ResumeModule takes a SuspendModule back.
type ResumeModule struct{}

// ModuleDeleted notifies converge that nothing of a module is left in the cluster.
type ModuleDeleted struct{ Name string }

// RetryNow ends the delays of failed tasks (F8): what has changed may be what they failed at.
type RetryNow struct{}

// ForgetModule notifies a module actor that its directory is gone.
type ForgetModule struct{}

// RetireModule says to a module that it is disabled while it is under maintenance.
type RetireModule struct{}
