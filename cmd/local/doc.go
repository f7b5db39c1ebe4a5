// Package local has the commands for authors of modules, which need no operator and no cluster:
// check values, play tests, and an API server in memory.
//
// They use the code of the operator, so that both have the same results: actors/plan,
// actors/scenario, kube/apiserver. This package adds flags, and output for people and for pipelines. A
// command that asks a running operator belongs to package remote.
package local
