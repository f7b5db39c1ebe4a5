// Package builtin knows the kinds of Kubernetes itself without a cluster: which versions of them a
// release of Kubernetes serves, and which fields they have. It knows what the Kubernetes libraries
// know that this program is built with.
package builtin
