package converge

import (
	"log/slog"

	"addon-operator/actors/decide"
	"addon-operator/actors/shared"
)

// purger holds purges back (purge_hold.go).
//
// A purge uninstalls the release of a module that has no directory (G7), if an operator has
// installed it: people and other programs may have releases in the namespace, too (P2). It is a
// step of a reload, tried once there; one that fails is tried again by the next reload (E10).
type purger struct {
	program *shared.Program
	log     *slog.Logger
	decide.Purges
	reminded int // counts reports of a held purge, so that an old reminder is recognised
}
