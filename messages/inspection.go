package messages

import (
	"fmt"

	"addon-operator/hooks"
)

// ListHooks asks an owner for its hooks. The answer is [HookList].
type ListHooks struct{}

// HookList are the hooks of an owner. A module has none until they were asked for their
// configuration, which begins when a discovery enables it.
type HookList struct{ Hooks []hooks.Hook }

// DumpSnapshots asks monitors what it holds for the hooks of an owner, or for one of them
// when Hook is set. The answer is [SnapshotDump].
type DumpSnapshots struct{ Owner, Hook string }

// SnapshotDump are the snapshots of hooks, sorted by hook and binding.
type SnapshotDump struct{ Bindings []BindingDump }

// BindingDump is the snapshot of one binding: the objects as its hook gets them.
type BindingDump struct {
	BindingState
	Snapshot []hooks.Object
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
