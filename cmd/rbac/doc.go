// Package rbac finds out which permissions the operator needs for its modules and hooks, and prints
// them as roles. It collects demands: those of the operator itself (demands.go), of the
// bindings of hooks, which are run with --config (rbac.go), and of the objects of charts (charts.go).
// Charts are rendered by the code that deploys them, against an API server in memory, whose requests
// show what templates look up.
//
// What hooks do at run time, with kubectl or object patches, is not known here.
package rbac
