package messages

import (
	"addon-operator/hooks"
	"addon-operator/values"
)

// ConfirmPurge notifies converge of a confirmation that a person has given.
type ConfirmPurge struct{ Value string }

// RemoveConfirmation says to config that a confirmation was read: it is valid once, so
// that it cannot allow what comes later.
type RemoveConfirmation struct{ Value string }

// SetConfig replaces the layers of the ConfigMap and of the Secret of an owner; nil when
// it has no section there.
type SetConfig struct {
	Section any
	Origin  values.Origin

	Secret       any
	SecretOrigin values.Origin
}

// ConfigChanged reports to converge what a valid change of the ConfigMap touched (G16). Of flags that a hook wrote it
// has only what they are: whether a reload follows is decided by the phase of the hook (G18), not by the write.
type ConfigChanged struct {
	Global bool
	// Modules whose sections changed, by name.
	Modules []string
	// Flags as they are now, by flag key.
	Flags        map[string]bool
	FlagsChanged bool
	// Maintenance are the modes in the ConfigMap as they are now, by maintenance key (H15).
	Maintenance map[string]string
	Cause       Cause
}

// CheckConfig asks config whether a content of the ConfigMap would be in force. It answers
// [ConfigChecked] and changes nothing.
type CheckConfig struct {
	Data map[string]string
	// Path is the value to change, as [values.ParsePath] reads it; one that it
	// cannot read is nothing special.
	Path string
}

// ConfigChecked answers CheckConfig.
type ConfigChecked struct {
	// Refused says why the content would be refused as a whole; empty when it would not.
	Refused string `json:"refused,omitempty"`
	// Deleted: the ConfigMap is gone (P1). LastValid is what is in force. If it is not empty
	// although the caller found no ConfigMap, config may not have received the deletion yet.
	Deleted   bool              `json:"deleted,omitempty"`
	LastValid map[string]string `json:"lastValid,omitempty"`
	// Marked: the value at Path, or a part of it, is marked with x-secret (D41).
	Marked bool `json:"marked,omitempty"`
	// InSecret: the Secret has a value at Path, which wins (D40).
	InSecret bool `json:"inSecret,omitempty"`
	// Unknown says that Path belongs to no module, and which was probably meant.
	Unknown string `json:"unknown,omitempty"`
}

// SaveConfig asks for a write of one section, and of flags, to the ConfigMap (D24), and of
// the part of the section that belongs there to the Secret (D41).
// The answer is [ConfigSaved].
type SaveConfig struct {
	// Key of the section; empty leaves sections alone. Base is the checksum of the section
	// that the patch was applied to: when the section is another by now, it is a conflict.
	Key     string
	Section any
	Secret  any // nil: nothing of the section is in the Secret
	Base    string
	Flags   []values.Flag
}

// ConfigSaved answers SaveConfig. Conflict: the section was changed by another writer;
// the new one was sent as SetConfig before this answer, so apply the patch again.
type ConfigSaved struct {
	Err      error
	Conflict bool
	// FlagsChanged: a flag in the ConfigMap has another value now.
	FlagsChanged bool
}

// ApplyHookResult passes the result files of a hook that exited with 0 to its owner. The answer is
// what the run knows of its owner from now on, or an error that names what was refused; then
// nothing of the result has an effect (D26).
type ApplyHookResult struct {
	Hook    string
	Binding hooks.BindingType
	// Triggers asks for the event that follows a change of values (G18): hooks run by
	// schedules and Kubernetes events.
	Triggers bool
	Cause    Cause
	Result   hooks.Result
	// Origin is remembered with the values that the result changes.
	Origin values.Origin
}
