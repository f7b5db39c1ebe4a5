// Package work is what runs do: each function that takes a supervisor.Run executes in a goroutine of
// its own, and may block for as long as a hook, Helm or the API server does. It cannot reach into an
// actor: what it may know its owner hands over ([Known]), and what it needs beyond that it asks for.
//
// It also has the messages that belong to runs, or carry types of modules and releases, and the paths of all actors
// (paths.go).
package work
