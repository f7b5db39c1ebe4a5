// Package remote has the commands that ask a running operator on its debug address, and those that
// change its ConfigMap or its objects of kind Module.
//
// A command that shows something has an asking: it declares the flags, and show gets a page and
// prints it in the format of -o. Tables are made here from JSON (tables.go); other texts are made
// by the operator and printed as they are. send finds the operator that a person means (choose): in
// a cluster by the kubeconfig (cluster.go), else at the debug address or socket (connect.go).
//
// The operator may be older or newer than the command. The command ignores unknown keys, and takes
// missing ones as empty.
package remote
