package messages

import "addon-operator/hooks"

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
