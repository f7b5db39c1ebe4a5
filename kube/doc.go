// Package kube is the operator's door to the Kubernetes API server: the
// clients, the ConfigMap with the users' values, the shared lean watch cache
// behind kubernetes bindings, Kubernetes Events and the object patches that
// hooks ask for.
//
// It may not contain: anything of modules, hooks, values or Helm; YAML
// sections of the ConfigMap (a key is a text here); the jq of bindings (a filter
// is a function here); decisions about what a change means.
//
// # The watch cache
//
// A [Watch] is what a binding asks for. It is split into parts, one for each
// namespace and name, and each part is fed by a source: one reflector for one
// distinct (resource, namespace, label selector, field selector), shared by
// all Watches that ask for it and stopped with the last of them.
//
//	API server ──> source (reflector) ──> part ──┐
//	API server ──> source (reflector) ──> part ──┴─> Watch ──> notify, synced
//	                    └──> part of another Watch
//
// An object is filtered while it is read from the stream, and only what the
// Watch wants to keep is kept: so the initial list of thousands of large
// objects never lies in memory as a whole.
package kube
