package messages

import (
	"log/slog"
	"time"
)

// SetDynamicFlags carries the opinions of global hooks on enabled modules (D25), by flag key, and
// which hook has said each.
type SetDynamicFlags struct {
	Flags map[string]bool
	By    map[string]string
}

// RequestReload asks converge to do steps 3 to 8 for all modules (seed 001 'reload all modules').
type RequestReload struct {
	Cause Cause
	Gone  string // the module whose directory is gone; empty for none
}

// Converged says that the first converge is over: ticks of schedules count from now on (C14).
type Converged struct{}

// SuspensionChanged notifies converge which modules are suspended, by objects of kind Module (H27).
type SuspensionChanged struct{ Names map[string]bool }

// SetModule tells a module what people, hooks and scripts want of it.
type SetModule struct {
	Want Want
	// Maintenance is the mode, empty for none (H15).
	Maintenance string
	// Files are those from which it has started: after others it needs this message again.
	Files string
}

// Want is what is wanted of a module.
type Want string

// What is wanted. Off: its tasks are cancelled at once, before the reload that deletes it (E11). On: nothing switches
// it off. Enabled: and the discovery has enabled it, so that its runs follow. Forgotten: it ends without a delete of
// its release, because its directory is gone, or it is disabled under maintenance.
const (
	Off       Want = ""
	On        Want = "on"
	Enabled   Want = "enabled"
	Forgotten Want = "forgotten"
)

// ModuleDeleted notifies converge that nothing of a module is left in the cluster.
type ModuleDeleted struct{ Name string }

// RetryNow ends the delays of failed tasks (F8): the change may have removed the cause of their failures.
type RetryNow struct{}

// The modes of drift: what is done with fields that others changed.
const (
	DriftOff     = "off" // objects are not compared
	DriftReport  = "report"
	DriftCorrect = "correct"
)

// Drift is what others changed in the objects of a module.
type Drift struct {
	Mode string `json:"mode"`
	// Checked is the time of the last check, zero before the first; Error is why it failed.
	Checked time.Time     `json:"checked,omitzero"`
	Error   string        `json:"error,omitempty"`
	Objects []ObjectDrift `json:"objects"`
}

// ObjectDrift is one object that others changed.
type ObjectDrift struct {
	Object string       `json:"object"`
	Fields []FieldDrift `json:"fields"`
}

// FieldDrift is one field of it: what is there, and what the chart says.
type FieldDrift struct {
	Path  string `json:"path"`
	Found any    `json:"found"`
	Chart any    `json:"chart"`
}

// LogValue keeps values, which may be secrets, out of logs.
func (Drift) LogValue() slog.Value { return slog.StringValue("drift") }

// ShutDown stops the operator in order.
type ShutDown struct{}
