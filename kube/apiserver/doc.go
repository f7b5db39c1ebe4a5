// Package apiserver is an API server in memory, for the scenarios of module authors, lifecycle
// scripts, 'make run' and 'rbac generate': the kinds of Kubernetes and what
// CustomResourceDefinitions add, kept in a map. It is served on loopback to kubectl and other
// processes (Start), and by calls, on virtual time if need be, to clients of the same process
// (RESTConfig).
//
//	client ──> request ──> store ──> history ──> requests that watch
//	             │           └─────────────────> Watches of the operator
//	             └─> kinds: discovery
//
// It does what hooks, charts and the operator can observe: resource versions and conflicts,
// watches from a version and versions that are gone, pages, selectors, namespaces that must
// exist, finalizers, orphans and garbage, generated names, JSON, merge, strategic and apply
// patches with field managers, the subresources status and scale. The table
// testdata/conformance.txtar holds it to the answers of a real API server.
//
// It has no admission but OnRequest, no defaults, no validation by schema, no access control
// but one token for everything (Protect), and no controllers. Jobs and Pods that are
// Helm hooks succeed at once, and with RunWorkloads all workloads count as running.
//
// It may not contain: anything of modules and values.
package apiserver
