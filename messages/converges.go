package messages

// SetDynamicFlags carries the opinions of global hooks on enabled modules (D25), by flag key, and
// which hook has said each.
type SetDynamicFlags struct {
	Flags map[string]bool
	By    map[string]string
}

// RequestReload asks converge to do steps 3 to 8 for all modules (seed 001 'reload all modules').
type RequestReload struct{ Cause Cause }

// Converged says that the first converge is over: ticks of schedules count from now on (C14).
type Converged struct{}
