package messages

import (
	"fmt"

	"addon-operator/hooks"
)

// SynchronizeLater asks monitors to queue a Synchronization as soon as all bindings of
// the hook are complete.
type SynchronizeLater struct {
	Owner string
	Hook  hooks.Hook
	Work  SynchronizeHook
}

// GetSnapshots asks for the objects of all kubernetes bindings of a hook. It starts their watches
// if they are not started yet. The answer is [Snapshots], when all of them are complete (C36), or
// cannot be for now.
type GetSnapshots struct {
	Owner string
	Hook  hooks.Hook
	// Synchronization is the run that asks; the zero value is any other.
	Synchronization Synchronization
}

// Synchronization names a run that shows bindings to a hook for the first time. It sees all
// that has changed until it gets its snapshots, so events are held from then on, until the
// binding is unlocked or no such run is left (C40).
type Synchronization struct {
	Run      int64 // no other has this number; 0 is none
	Bindings []BindingKey
}

// SynchronizationEnded notifies monitors that a run that has asked for snapshots is over. After a success Seen has
// the last change of each of its bindings that it has shown: the later events go through, also those that were held
// (C40).
type SynchronizationEnded struct {
	Owner string
	Synchronization
	Seen []uint64
}

// Snapshots are the objects of a hook's kubernetes bindings, in their order.
type Snapshots struct {
	Bindings []BindingSnapshot
	// Waiting says which binding cannot be complete for now, and why; empty when all are complete.
	Waiting string
	Err     error
}

// BindingSnapshot is one binding's part of [Snapshots].
type BindingSnapshot struct {
	Name    string
	Objects []hooks.Object
	Seq     uint64 // the last change that Objects contains
}

// Unwatch stops the watches of an owner.
type Unwatch struct{ Owner string }

// WatchKey names the watch of one kubernetes binding.
type WatchKey struct {
	Owner   string
	Binding BindingKey
}

// BindingKey names a kubernetes binding of a hook by its place in the hook's
// configuration, because names may repeat.
type BindingKey struct {
	Hook  string
	Index int
}

// BindingSettled notifies an owner that a binding need not be waited for: its Synchronization has succeeded, or was
// not wanted; or it is deferred, because its kind does not exist yet, or the operator may not list it. Then only its
// own hook waits for it.
type BindingSettled struct {
	Binding  BindingKey
	Deferred bool
	Late     bool   // it was deferred, so whatever ran without the hook is due again
	Task     string // of the run that sends it
}

// AwaitSynchronized asks an owner to queue the Synchronization runs that belong in
// named queues, unless they are queued or done, and to answer as
// soon as every binding that must be waited for is synchronized (F13, F14, X22).
type AwaitSynchronized struct {
	Task string // of the run that asks
	// Trace is the span that waits; the runs become parts of it (see Task.Trace).
	Trace string
}

// BindingState is the state of the watch of a kubernetes binding.
type BindingState struct {
	Owner   string `json:"owner"`
	Hook    string `json:"hook"`
	Binding string `json:"binding"`
	Queue   string `json:"queue"`
	Kind    string `json:"kind"`
	// Phase is syncing, complete, waiting-for-kind, forbidden, too-large or stale (kube.Phase);
	// Message says more.
	Phase   string `json:"phase"`
	Message string `json:"message,omitempty"`
	// Objects in the snapshot, events held until Synchronization has succeeded, and how often
	// jqFilter failed on an object (C39).
	Objects      int    `json:"objects"`
	Held         int    `json:"heldEvents,omitempty"`
	FilterErrors uint64 `json:"filterErrors,omitempty"`
}

// String implements fmt.Stringer.
func (b BindingState) String() string {
	text := fmt.Sprintf("%s %s/%s %s: %s", b.Owner, b.Hook, b.Binding, b.Kind, b.Phase)
	if b.Message != "" {
		text += " (" + b.Message + ")"
	}
	if b.FilterErrors > 0 {
		text += fmt.Sprintf(", jqFilter failed %d times", b.FilterErrors)
	}
	return text
}
