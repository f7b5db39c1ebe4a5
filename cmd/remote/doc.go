// Package remote has the commands that ask a running operator on its debug address, and those that
// change its ConfigMap, its Secret or its objects of kind Module.
//
// A command that only shows a page is a row of server.Routes: pages.go makes it, and prints
// what the operator has made of the page, in the format of -o. send finds the operator that a person
// means (asksCluster): the one in the cluster of the kubeconfig, or the one at the debug
// address or socket that is given (connect.go).
package remote
