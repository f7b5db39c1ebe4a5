// Package plan answers two questions of users: what would a change do (a plan), and where does the
// cluster differ from what was deployed (drift, and the diff of a render). Its work may block, and
// runs in the goroutine of the caller: no actor waits for charts and scripts.
//
// It uses no actors. It receives their state as data, and access to files and the cluster as a few functions.
// Nothing here has effects: hooks are not run, and Helm does dry runs. Enabled scripts are run,
// because their answers cannot be predicted; they are part of a discovery and have no effects.
package plan
