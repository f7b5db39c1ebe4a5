package messages

import (
	"log/slog"

	"addon-operator/hooks"
)

// WarmUp asks monitors of a follower to fill the watches of hooks before this replica leads.
type WarmUp struct {
	Owner string
	Hooks []hooks.Hook
}

// FlagsMoved sends standby the flags in the ConfigMap, by flag key.
type FlagsMoved struct{ Flags map[string]bool }

// Lead notifies monitors that this replica leads from now on.
type Lead struct{}

// DropWarm stops the watches that a follower has filled and the first converge did not ask for.
type DropWarm struct{}

// LeadFrom notifies config that this replica leads from now on. Known and Secret are the contents of ConfigMap and
// Secret with which the owners were spawned.
type LeadFrom struct{ Known, Secret map[string]string }

// LogValue keeps it out of logs.
func (LeadFrom) LogValue() slog.Value { return slog.StringValue("the ConfigMap and the Secret") }
