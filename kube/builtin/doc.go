// Package builtin lists the kinds of Kubernetes itself without a cluster: which versions of them a
// release of Kubernetes serves. Its source are the Kubernetes libraries that this program is
// built with.
//
// The types in the libraries have the lifecycle of each kind in their methods: the release in which
// it was added and the one in which it was removed. So one program covers older releases, too. It makes
// no requests. The fields of kinds are the subject of kube/fields.
package builtin
