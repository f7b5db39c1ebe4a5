// Package plan answers two questions of users: what would a change do (a plan), and where does the
// cluster differ from what was deployed (drift, and the diff of a render). Its work may block, and
// runs in the goroutine of who asks: no actor waits for charts and scripts.
//
// It knows no actors. What they know is given to it as data, and what it touches as a few functions.
// Nothing here has effects: hooks are not run, and Helm does dry runs. Enabled scripts are run,
// because only they know what they say; they are part of a discovery and have no effects.
package plan
