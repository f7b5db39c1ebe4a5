// Package builtin knows the kinds of Kubernetes itself without a cluster: which versions of them a
// release of Kubernetes serves. It knows what the Kubernetes libraries know that this program is
// built with.
//
// The types in the libraries have the lifecycle of each kind in their methods: the release in which
// it came and the one in which it was removed. So one program knows older releases, too. It makes
// no requests. The fields of kinds are the subject of kube/fields.
package builtin
