// Package kube is how the operator uses the Kubernetes API server: the clients, the Lease and the
// Fence of the leader, the ConfigMap with the users' values, the shared watch cache behind
// kubernetes bindings, objects of kind Module, CustomResourceDefinitions, Kubernetes Events and the
// object patches of hooks.
//
// It may not contain: what modules, hooks, values and Helm mean; YAML sections of the ConfigMap (a
// key is a text here); the jq of bindings (a filter is a function here); decisions about what a
// change means.
//
// # Requests
//
// A [Client] has three kinds of clients, for typed, dynamic and metadata requests, over one pool of
// connections. Each write passes the [Fence], below all retries and rate limits. Work that may send
// thousands of requests has a client with limits of its own ([Client.WithLimits]).
//
// # Watches
//
// Everything that watches does so by a [Watch]: bindings, the ConfigMap, objects of kind Module, the presence of
// objects of releases, and the definitions of kinds. Nothing is watched twice.
//
// A Watch is what a binding asks for. It is split into parts, one for each
// namespace and name, and each part is fed by a source: one reflector for one
// distinct (resource, namespace, label selector, field selector), shared by
// all Watches that need it and stopped with the last of them. Its failures are visible, its pauses depend on their
// cause, and it notices when the API server has gone back to an earlier state (P14).
//
//	API server ──> source (reflector) ──> part ──┐
//	API server ──> source (reflector) ──> part ──┴─> Watch ──> notify, synced
//	                    └──> part of another Watch
//
// An object is filtered while it is read from the stream, and only what the Watch keeps of it stays
// in memory: so the initial list of thousands of large objects is never in memory as a whole.
//
// Locks are taken in this order: Watch.adjusting, Watcher.mu, source.mu, Watch.mu. A
// source holds its lock while it changes its parts, so that all of them see the same order of
// events. No lock is held while notify and synced run: each Watch has a goroutine for them.
package kube
