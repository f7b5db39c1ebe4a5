// Package supervisor decides what happens after a failure. It holds the
// restart-with-backoff strategy of runs, which all owners share, the end of the
// process at a crash, the inspection of mailboxes and the ordered start and stop of
// an actor system.
//
// It knows nothing of modules, hooks, values or Helm. Apart from actors and testkit it is the only
// package that imports protoactor.
//
// # What happens after a failure
//
// An owner (an actor that executes tasks) gives each task to a run: a child that
// lives for this task only and may block. A run that fails is restarted by its
// owner through [Runs] after a delay that grows ([Backoff]); it never gives up.
// No other actor is restarted. A panic in its handler is a bug, which is logged with
// its stack, and the process ends ([Options].Crashed): what the handler has half done
// is gone with it.
//
// Retries never stop: [Sparing] decides how often their failures are logged.
package supervisor
