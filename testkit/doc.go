// Package testkit plays the life of an operator on virtual time: the real actors, real
// or scripted hooks, and packages helm and kube on the API server in memory. A lifecycle of hours takes
// milliseconds, and its trace is the same each time:
// the player runs one goroutine at a time (play.go), in an order that a seed decides.
//
// A lifecycle script is a txtar archive. Its comment says in a sentence what it proves,
// its files are the modules and hooks, "script" has the steps, each after >, and below each what must
// happen. docs/testkit.md explains the language with an example. There are three ways to play:
//
//   - [Lifecycle] plays files and compares their traces; -update rewrites them.
//   - [Interleave] plays files under seeds: whatever the order of messages is, the same
//     must be left, and the same hooks must have run. -seeds N plays more of them.
//   - [Stage] plays the steps that a test gives it, and returns what was left.
//
// In all of them some things must never be: messages without a handler, two things
// at the same time that exclude each other, actors that outlive the stop ([Played.Problems]).
//
// Nothing in here is for production; package devclustertest has the real API server.
package testkit
