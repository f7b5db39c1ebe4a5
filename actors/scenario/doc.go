// Package scenario plays what authors of modules write about them: YAML files next to a
// module that say what is given, what happens, and what must come of it.
//
// Hooks, charts, actors, Helm and the client of the operator are the real ones; only the
// API server is one in memory (package apiserver). Time passes only when a step says so:
// then crontabs fire and failed tasks are tried again. A step is over when the operator has
// nothing left to do.
//
// The engine below it also plays the lifecycle scripts of package testkit, which has a cast of
// its own: see [Cast]. Package cmd/local and tests use this package. It knows nothing of
// *testing.T.
package scenario
