package messages

import (
	"addon-operator/hooks"
)

// ExchangeWatches asks monitors to stop the watches of hooks, except those that stay: these belong
// to another version of their hook now.
type ExchangeWatches struct {
	Owner string
	Leave []string // names of hooks
	Stay  map[string]StayingBindings
}

// StayingBindings are the bindings of a hook that are the same in its new version, by their index in the
// list.
type StayingBindings struct {
	Hook   hooks.Hook
	Places []int
}

// ResyncAll asks monitors to show hooks all objects that they watch.
type ResyncAll struct{ Cause Cause }

// AsideDue is for a queue. It goes through the root, as tasks for that queue do, so that it cannot
// overtake the Synchronization sent before it.
type AsideDue struct {
	Queue string
	Done  SnapshotsComplete
}
