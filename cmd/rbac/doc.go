// Package rbac finds out which permissions the operator needs for its modules and hooks, and prints
// them as roles. It collects demands (rules.go): those of the operator itself, of the bindings of
// hooks, which are run with --config, and of the objects of charts (objects.go). Charts are read by
// the code that deploys them: Helm installs each into an API server in memory, which refuses every
// write and hands over the release record that Helm wanted to store first (dryrun.go).
//
// What hooks do at run time, with kubectl or object patches, is not known here.
package rbac
