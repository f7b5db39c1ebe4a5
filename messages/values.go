package messages

import (
	"addon-operator/hooks"
	"addon-operator/values"
)

// ApplyHookResult passes the result files of a hook that exited with 0 to its owner. The answer is
// what the run knows of its owner from now on, or an error that names what was refused; then
// nothing of the result has an effect (D26).
type ApplyHookResult struct {
	Hook    string
	Binding hooks.BindingType
	// Triggers asks for the event that follows a change of values (G18): hooks run by
	// schedules and Kubernetes events.
	Triggers bool
	Cause    Cause
	Result   hooks.Result
	// Origin is remembered with the values that the result changes.
	Origin values.Origin
}
