// Package modules has the actors that own values and hooks: one for each module, and global-hooks.
//
// What they have in common is an owner in three parts: its tasks and their runs (assignment.go), its hooks
// (synchronize.go) and its values (apply.go). What a module has besides is in parts of its own: its phase (phase.go,
// switch.go), its release, drift, and the loading of its hooks (loading.go).
package modules
