// Package monitors is the actor monitors: it owns the watches of all kubernetes bindings, and makes tasks of their events.
//
// monitors.go receives; monitor.go is one binding, and phase.go draws where it may be. events.go makes tasks of changes,
// waiters.go knows who waits for snapshots. overflow.go stops what is too large.
package monitors
