// Package plan is what the operator decides before it does anything: which modules are enabled, what a reload does,
// which purges are held back, whether a ConfigMap is accepted; and what a change would do (a plan), for users. Its
// functions compute answers from what they are given and from files, so converge, config, a plan and a check of files
// come to the same ones.
//
// It knows no actors. Nothing here has effects: hooks are not run, and Helm does dry runs. Enabled scripts are run,
// because their answers cannot be predicted; they have no effects. Plans and renders may block, and run in the
// goroutine of the caller.
//
// config.go, reload.go and check.go decide; plan.go makes what types.go describes and shows.
package plan
