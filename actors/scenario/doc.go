// Package scenario plays the tests that authors of modules write: YAML files next to a module
// that say what is given, what happens, and what is expected.
//
// Hooks, charts, actors, Helm and the client of the operator are the real ones; only the
// API server is one in memory (package apiserver). Time passes only when a step says so:
// then crontabs fire and failed tasks are retried. A step is over when the operator has
// nothing left to do.
//
// A test takes this way: [Find] locates the files, parse.go makes scenarios of their documents
// and tests, [Play] plays each in a play of its own (play.go), which copies the module,
// puts a recorder between the actors and the outside (recorder.go) and compares at
// each expect (check.go, with its matchers). Stand-ins answer what hooks
// call (recorder.go). A play shares nothing with another one, so
// they run in parallel.
//
// The [Engine] below it also plays the lifecycle scripts of package testkit. Commands (cmd/local, cmd/lint, cmd/dev,
// cmd/bring) and tests use this package. It does not use *testing.T.
package scenario
