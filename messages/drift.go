package messages

import (
	"log/slog"
	"time"
)

// Describe implements Work.
func (CheckDrift) Describe() (kind, about string) { return "CheckDrift", "" }

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
