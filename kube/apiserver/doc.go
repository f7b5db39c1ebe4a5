// Package apiserver is an API server in memory, for the scenarios of module authors, lifecycle
// scripts, 'make run' and 'rbac generate': the kinds of Kubernetes and what
// CustomResourceDefinitions add, kept in a map. It serves kubectl and other processes on the
// loopback interface (Start), and clients of the same process by calls (RESTConfig), so that time
// may be virtual.
//
//	client ──> request ──> store ──> history ──> requests that watch
//	             │           └─────────────────> watches of the operator (kube.Origin)
//	             └─> kinds: discovery
//
// It does what hooks, charts and the operator can observe: resource versions and conflicts,
// watches from a version and versions that are gone, selectors, namespaces that must
// exist, finalizers, orphans and garbage, generated names, JSON, merge, strategic and apply
// patches with field managers, the subresource status. The table
// testdata/conformance.txtar holds it to the answers of a real API server.
//
// It has no admission but OnRequest, no defaults, no validation by schema, no access control
// but one token for everything (Start), and no controllers. Jobs and Pods that are
// Helm hooks succeed at once, and with RunWorkloads all workloads count as running.
//
// One lock, that of the store, guards all objects and the history, and is held while the watches of the operator
// report. Objects in the store and in the history are never written to: each change is made to a copy. So they may be
// read and encoded without the lock.
//
// It may not contain: anything of modules and values.
package apiserver
