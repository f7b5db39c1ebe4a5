package messages

import (
	"log/slog"
	"time"

	"addon-operator/hooks"
	"addon-operator/values"
)

// GetValues asks an owner for its values. The answer is [Values].
type GetValues struct{}

// Values is an immutable view of an owner's values.
type Values struct {
	Section *values.Section
	// Converged is the section at the end of the last converge, at ConvergedAt; nil before the
	// first.
	Converged   *values.Section
	ConvergedAt time.Time
}

// LogValue keeps values, which may be secrets, out of logs.
func (Values) LogValue() slog.Value { return slog.StringValue("values") }

// ApplyHookResult passes the result files of a hook that exited with 0 to its owner. The answer is
// what the run knows of its owner from now on, or an error that names what was refused; then
// nothing of the result has an effect (D26).
type ApplyHookResult struct {
	Hook    string
	Binding hooks.BindingType
	// Triggers asks for the event that follows a change of values (G18): hooks run by
	// schedules and Kubernetes events.
	Triggers bool
	Reload   int
	Cause    Cause
	Result   hooks.Result
	// Origin is remembered with the values that the result changes.
	Origin values.Origin
}

// ConfigMapSeen is the content of the ConfigMap as the API server shows it.
type ConfigMapSeen struct {
	ResourceVersion string
	Data            map[string]string
	// ConfirmPurge is the annotation by which a person allows a purge that is held back (P1).
	ConfirmPurge string
	// Written is the annotation that lists which values hooks wrote ([values.Written]).
	Written string
	// WentBack: the API server has gone back to an earlier state; this is its content now.
	WentBack bool
}

// SetConfig replaces the layers of the ConfigMap and of the Secret of an owner; nil when
// it has no section there.
type SetConfig struct {
	Section any
	Origin  values.Origin

	Secret       any
	SecretOrigin values.Origin
}

// RememberValues notifies an owner that a converge is over: later changes of values are shown as
// changes since then.
type RememberValues struct{}

// ConfigChanged reports to converge what a valid change of the ConfigMap touched (G16).
type ConfigChanged struct {
	Global bool
	// Modules whose sections changed, by name.
	Modules []string
	// Flags as they are now, by flag key.
	Flags        map[string]bool
	FlagsChanged bool
	// Maintenance are the modes in the ConfigMap as they are now, by maintenance key (H15).
	Maintenance map[string]string
	Revision    string
}

// ConfigFlagsSaved lists for converge the flags that a hook wrote to the ConfigMap. Whether a
// reload follows is decided by the phase of the hook (G18), not by the write.
type ConfigFlagsSaved struct{ Flags map[string]bool }

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
	// Hook is whose patches these are.
	Hook string
}

// ConfigSaved answers SaveConfig. Conflict: the section was changed by another writer;
// the new one was sent as SetConfig before this answer, so apply the patch again.
type ConfigSaved struct {
	Err      error
	Conflict bool
	// FlagsChanged: a flag in the ConfigMap has another value now.
	FlagsChanged bool
}
