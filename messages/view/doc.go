// Package view has what the operator shows to people and programs: on pages, in probes, dumps and
// metrics, and by the commands that ask a running operator.
//
// Actors publish a status about themselves (status.go), which readers get without a
// message, so that a page never waits for an actor. The other types are answers of the operator as
// a whole: which hooks exist and
// which of them hang (hook.go), and what can be changed while it runs.
//
// A view describes, counts and masks itself; other behaviour does not belong here. A status holds
// no values of users. Plans, renders and snapshots hide the values of Secrets unless they were
// asked for.
//
// No view crosses an actor: package messages has the types that do, and may not import this one.
package view
