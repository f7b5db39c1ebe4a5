// Package hooks implements the protocol of executable hooks: it finds them on disk, runs them with
// --config (protocol v0 and v1), writes what they read (binding context, values), runs them in a
// process group of their own and reads what they wrote (patches, metrics, object operations).
//
// It does not decide when a hook runs and what follows from its result (queues, retries, commits),
// and has no watches, timers, Kubernetes clients or Helm. Nor does it interpret values: it passes
// trees to package values and gets patches from it.
//
// The way of a hook through the package:
//
//	Find -> Runner.Configure -> ParseConfig -> (the caller decides when) -> Runner.Run -> Result
package hooks
