// Package lint finds mistakes in modules without a cluster, and reports where each of them was
// made. It has no rules of its own where the operator has some: loading, validation, --config of
// hooks, rendering and tests run the code that the operator runs, and this package only finds the
// file and line for their messages. What lint accepts, the operator accepts.
//
// lint.go has the command, and the order of the checks and that of loading; hooks.go and charts.go have the checks.
// finding.go collects what they find, with the place of a message in a file.
package lint
