package modules

import (
	"log/slog"
	"slices"

	"addon-operator/actors/shared"
	"addon-operator/messages/view"
)

// Phases are the phases that may follow each phase. Off are disabled, waiting,
// suspended and deleting: nothing but a delete runs then.
//
//	disabled -EnableModule-> waiting -RunModule-> starting -done-> ready
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
func Phases() shared.Phases[view.Phase] {
	return shared.Phases[view.Phase]{
		view.Disabled:  {view.Waiting, view.Deleting},
		view.Waiting:   {view.Starting, view.Disabled},
		view.Starting:  {view.Ready, view.Suspended, view.Disabled},
		view.Ready:     {view.Running, view.Suspended, view.Disabled},
		view.Running:   {view.Ready, view.Suspended, view.Disabled},
		view.Suspended: {view.Deleting, view.Disabled},
		view.Deleting:  {view.Disabled},
	}
}

// moduleLife is the phase of a module, and its maintenance.
type moduleLife struct {
	log   *slog.Logger
	phase view.Phase
	// maintenance is the mode (H15, values.Suspended, …), empty for none.
	maintenance string
	// enabledHere: a discovery of this process has enabled the module, and it was not deleted since.
	enabledHere bool
	late        bool // runs that were in progress when the module was cleared may still report metrics
}

// leavesSeries reports, once, that the last of the runs has ended that outlived their module: Helm is
// not cancelled, and a hook may succeed while it is being killed. What they have reported is to be
// removed (I9), unless the module is enabled again: then the series are those of its new life.
func (l *moduleLife) leavesSeries(runs int) bool {
	if !l.late || runs > 0 {
		return false
	}
	l.late = false
	return l.phase == view.Disabled
}

// become is the only way to change the phase.
func (l *moduleLife) become(to view.Phase) {
	if l.phase == to {
		return
	}
	Phases().Change(l.log, "module", l.phase, to)
	if to == view.Waiting || to == view.Disabled {
		l.enabledHere = to == view.Waiting
	}
	l.phase = to
}

// off reports whether the module may run nothing but a delete.
func (l *moduleLife) off() bool {
	return slices.Contains([]view.Phase{view.Disabled, view.Waiting, view.Suspended, view.Deleting}, l.phase)
}

// enabled reports whether the last discovery has enabled the module and it was not deleted since. A
// release that an earlier process has left is deleted from the phase disabled, without having been
// enabled in this one.
func (l *moduleLife) enabled() bool {
	return l.phase != view.Disabled && (l.phase != view.Deleting || l.enabledHere)
}

// started reports whether the start-up execution was finished once: later runs leave out onStartup
// and Synchronizations (X13).
func (l *moduleLife) started() bool { return l.phase == view.Running || l.phase == view.Ready }
