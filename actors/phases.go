package actors

import (
	"log/slog"
	"slices"

	"addon-operator/messages/view"
)

// phases are the changes of phase that an actor may make: for each phase those that may follow it.
type phases[P ~string] map[P][]P

// life is the phase of an actor, or of a part of it, and what may follow each phase.
type life[P ~string] struct {
	of    string
	logs  *slog.Logger
	drawn phases[P]
	phase P // changed by become alone
}

// become is the only way to change the phase. A change that is not drawn is a bug, but what leads to it has happened
// already: to refuse it would leave the actor in a phase in which it is not, and to crash would interrupt all modules,
// again after each start if the same inputs lead to it. So it is reported, and the actor goes on. Tests fail.
func (l *life[P]) become(to P) {
	if l.phase != to && !slices.Contains(l.drawn[l.phase], to) {
		l.logs.Error("bug: "+l.of+" changes to a phase that is not allowed", "from", l.phase, "to", to)
	}
	l.logs.Debug(l.of+" changes phase", "from", l.phase, "to", to)
	l.phase = to
}

// Phases are the phases that may follow each phase. Off are disabled, waiting,
// suspended and deleting: nothing but a delete runs then.
//
//	disabled -SetModule-> waiting -RunModule-> starting -done-> ready
//	ready -RunModule-> running -done-> ready
//
//	starting -SetModule-> suspended   running -SetModule-> suspended   ready -SetModule-> suspended
//	waiting -SetModule-> disabled
//
//	suspended -DeleteModule-> deleting -done-> disabled
//	disabled -DeleteModule-> deleting     (left by an earlier process, or forgotten before)
//
// A module that is forgotten, because its directory is gone or it is retired under maintenance, has
// nothing left to undo. One that is resumed is forgotten and enabled again:
//
//	starting -forget-> disabled   running -forget-> disabled   ready -forget-> disabled   suspended -forget-> disabled
func modulePhases() phases[view.Phase] {
	return phases[view.Phase]{
		view.Disabled:  {view.Waiting, view.Deleting},
		view.Waiting:   {view.Starting, view.Disabled},
		view.Starting:  {view.Ready, view.Suspended, view.Disabled},
		view.Ready:     {view.Running, view.Suspended, view.Disabled},
		view.Running:   {view.Ready, view.Suspended, view.Disabled},
		view.Suspended: {view.Deleting, view.Disabled},
		view.Deleting:  {view.Disabled},
	}
}

// off reports whether the module may run nothing but a delete.
func (m *module) off() bool {
	return slices.Contains([]view.Phase{view.Disabled, view.Waiting, view.Suspended, view.Deleting}, m.phase)
}

// enabled reports whether the last discovery has enabled the module, or its delete has not ended.
func (m *module) enabled() bool { return m.phase != view.Disabled }

// started reports whether the start-up execution was finished once: later runs leave out onStartup
// and Synchronizations (X13).
func (m *module) started() bool { return m.phase == view.Running || m.phase == view.Ready }

// convergePhase is where 'reload all modules' is.
//
//	idle -request-> requested -ReloadModules-> reloading -FinishReload-> idle
//	reloading -request-> requested     (it starts again)
//	reloading -request-> postponed -FinishReload-> requested     (after three in a row)
//	postponed -ReloadModules-> reloading     (the head of the one in progress fails)
//	postponed -files-> requested     (global hooks have changed)
//
// In requested and postponed the task ReloadModules waits in the main queue, and one is enough (F9). In reloading and
// postponed the steps of the reload are there. What is left of the steps of one that starts again is dropped, and what
// has begun ends without effect (F10).
type convergePhase string

const (
	idle      convergePhase = "idle"
	requested convergePhase = "requested"
	reloading convergePhase = "reloading"
	postponed convergePhase = "postponed"
)

// Phases are the changes of phase that are drawn above.
func convergePhases() phases[convergePhase] {
	return phases[convergePhase]{
		idle:      {requested},
		requested: {reloading},
		reloading: {idle, requested, postponed},
		postponed: {requested, reloading},
	}
}

// monitorPhase is how far the watch of a binding is, and what is done with its events.
//
//	filling -synced-> filled -GetSnapshots-> showing -SynchronizationEnded-> open
//	showing -SynchronizationEnded-> filled     (the hook has failed)
//
// Events are dropped until a Synchronization run gets the snapshot, which contains them. In showing
// they are held. In open they become tasks. In each phase the snapshot may become too large, which it stays:
//
//	filling -overflow-> tooLarge     filled -overflow-> tooLarge
//	showing -overflow-> tooLarge     open -overflow-> tooLarge
type monitorPhase string

const (
	filling  monitorPhase = "filling"
	filled   monitorPhase = "filled"
	showing  monitorPhase = "showing"
	open     monitorPhase = "open"
	tooLarge monitorPhase = "tooLarge"
)

// Phases are the changes of phase that are drawn above.
func monitorPhases() phases[monitorPhase] {
	return phases[monitorPhase]{
		filling: {filled, tooLarge},
		filled:  {showing, tooLarge},
		showing: {filled, open, tooLarge},
		open:    {tooLarge},
	}
}

// isFilled: the snapshot was complete once, and is not too large.
func (mon *monitor) isFilled() bool { return mon.phase != filling && mon.phase != tooLarge }
