package monitors

import (
	"log/slog"

	"addon-operator/actors/shared"
)

// monitorPhase is how far the watch of a binding is, and what is done with its events.
//
//	filling -synced-> filled -GetSnapshots-> showing -SynchronizationEnded-> open
//	showing -SynchronizationEnded-> filled     (the hook has failed)
//
// Events are dropped until a Synchronization run gets the snapshot, which contains them. In showing
// they are held. In open they become tasks. In each phase the snapshot, or what is held, may become too large:
//
//	filling -overflow-> tooLarge     filled -overflow-> tooLarge     open -overflow-> tooLarge
//	showing -overflow-> tooLarge     tooLarge -watchAgain-> filling
type monitorPhase string

const (
	filling  monitorPhase = "filling"
	filled   monitorPhase = "filled"
	showing  monitorPhase = "showing"
	open     monitorPhase = "open"
	tooLarge monitorPhase = "tooLarge"
)

// Phases are the changes of phase that are drawn above.
func Phases() shared.Phases[monitorPhase] {
	return shared.Phases[monitorPhase]{
		filling:  {filled, tooLarge},
		filled:   {showing, tooLarge},
		showing:  {filled, open, tooLarge},
		open:     {tooLarge},
		tooLarge: {filling},
	}
}

// monitorLife is the phase of a monitor.
type monitorLife struct {
	log   *slog.Logger
	phase monitorPhase
}

// become is the only way to change the phase.
func (l *monitorLife) become(to monitorPhase) {
	Phases().Change(l.log, "monitor", l.phase, to)
	l.phase = to
}

// isFilled: the snapshot was complete once, and was not too large since.
func (l *monitorLife) isFilled() bool { return l.phase != filling && l.phase != tooLarge }
