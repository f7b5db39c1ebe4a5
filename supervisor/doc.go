// Package supervisor decides what happens after a failure. It holds the
// restart-with-backoff strategy, the crash-only strategy, the supervision of
// runs that all owners share, the inspection of mailboxes and the ordered start
// and stop of an actor system.
//
// It knows nothing of modules, hooks, values or Helm: whoever finds one of these
// words in here has found a mistake. Apart from actors and testkit it is the only
// room that imports protoactor.
//
// # The strategies
//
// An owner (an actor that executes tasks) gives each task to a run: a child that
// lives for this task only and may block. A run that fails is restarted by its
// owner through [Runs] after a delay that grows ([Backoff]); it never gives up.
// Every other actor is crash-only: a panic in it is a bug, which is logged once
// with its stack, and the actor is restarted; the state that must survive lies in
// a struct that its Producer captures, and what it crashed over is handled once
// more when it would not be sent again. The root is not restarted, because all
// others would be with it: it goes on as it is.
//
// Retries never stop: [Sparing] decides how often their failures are logged.
package supervisor
