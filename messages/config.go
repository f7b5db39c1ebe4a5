package messages

import "log/slog"

// ConfirmPurge notifies converge of a confirmation that a person has given.
type ConfirmPurge struct{ Value string }

// RemoveConfirmation says to config that a confirmation was read: it is valid once, so
// that it cannot allow what comes later.
type RemoveConfirmation struct{ Value string }

// ScriptsAnswered says to config what a discovery has found out.
type ScriptsAnswered struct{ Scripts map[string]bool }

// GetKnownConfig asks config for the content of the ConfigMap that is in force. The answer is [KnownConfig].
type GetKnownConfig struct{}

// KnownConfig answers GetKnownConfig.
type KnownConfig struct {
	Data    map[string]string // not written to
	Refused string            // why what is in the cluster is not in force; empty when it is
}

// LogValue keeps it out of logs.
func (KnownConfig) LogValue() slog.Value { return slog.StringValue("the known ConfigMap") }
