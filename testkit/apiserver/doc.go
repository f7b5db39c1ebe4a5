// Package apiserver is an API server in memory, for the scenarios of module authors: the
// kinds of Kubernetes and what CustomResourceDefinitions add, kept in a map and served on
// loopback to kubectl, Helm and the operator's own client.
//
// It does what hooks and charts can observe: resource versions and conflicts, selectors,
// namespaces that must exist, finalizers, generated names, JSON, merge, strategic and
// apply patches. It has no admission, no defaults, no validation by schema, no access
// control and no controllers, but for Jobs and Pods that are Helm hooks: they succeed at
// once. An apply patch is a strategic merge without field owners.
package apiserver
