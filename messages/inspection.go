package messages

import "fmt"

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
