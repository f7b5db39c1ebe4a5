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

// DiskChanged notifies converge that files below the modules directories, or of global hooks, may
// have changed.
type DiskChanged struct{}

// RetryNow ends the delays of failed tasks (F8): what has changed may be what they failed at.
type RetryNow struct{}

// SetDynamicFlags carries the opinions of global hooks on enabled modules (D25), by flag key, and
// which hook has said each.
type SetDynamicFlags struct {
	Flags map[string]bool
	By    map[string]string
}

// ConvergeFinished says that the last step of a reload is done.
type ConvergeFinished struct {
	Reload int
	// GlobalChanged: afterAll hooks changed global values, so steps 3 to 8 are due again.
	GlobalChanged bool
}

// Converged says that the first converge is over: ticks of schedules count from now on (C14).
type Converged struct{}
