// Package hooks speaks the protocol of executable hooks: it finds them on disk, asks them for their configuration
// (--config, protocol v0 and v1), writes what they read (binding context, values), runs them in a process group of
// their own and reads what they wrote (patches, metrics, object operations).
//
// What may not enter this room: when a hook runs and what follows from its result (queues, retries, commits), watches
// and timers, Kubernetes clients, Helm, and the meaning of values. The package reads and writes no values tree itself:
// it hands trees to package values and gets patches from it.
//
// The walk of a hook through the package:
//
//	Find -> Runner.Configure -> ParseConfig -> (the caller decides when) -> Runner.Run -> Result
package hooks
