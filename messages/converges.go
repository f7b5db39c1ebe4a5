package messages

// SetDynamicFlags carries the opinions of global hooks on enabled modules (D25), by flag key, and
// which hook has said each.
type SetDynamicFlags struct {
	Flags map[string]bool
	By    map[string]string
}

// AfterAllEnded notifies converge that an afterAll hook of a reload has succeeded.
type AfterAllEnded struct {
	Reload int
	// GlobalChanged: the afterAll hooks of this reload changed global values, so steps 3 to 8 are due again.
	GlobalChanged bool
}

// RequestReload asks converge to do steps 3 to 8 for all modules (seed 001 'reload all modules').
type RequestReload struct{ Cause Cause }

// Converged says that the first converge is over: ticks of schedules count from now on (C14).
type Converged struct{}
