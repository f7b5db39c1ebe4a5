package actors

import (
	"log/slog"
	"slices"

	"addon-operator/messages"
	"addon-operator/messages/view"
)

// The phases of a module, and what leads from one to the next. Off are disabled, waiting, suspended and
// deleting: nothing but a delete runs then.
//
//	disabled -EnableModule-> waiting -RunModule-> starting -done-> ready
//	ready -RunModule-> running -done-> ready
//
//	starting -SuspendModule-> suspended   running -SuspendModule-> suspended   ready -SuspendModule-> suspended
//	suspended -ResumeModule-> starting    suspended -ResumeModule-> ready
//	waiting -SuspendModule-> disabled
//
//	suspended -DeleteModule-> deleting -done-> disabled
//	disabled -DeleteModule-> deleting     (left by an earlier process, or forgotten before)
//
// A module that is forgotten, because its directory is gone or it is retired under maintenance, has nothing left to
// undo:
//
//	starting -forget-> disabled   running -forget-> disabled   ready -forget-> disabled   suspended -forget-> disabled
func moduleTransitions(from view.Phase) []view.Phase {
	switch from {
	case view.Disabled:
		return []view.Phase{view.Waiting, view.Deleting}
	case view.Waiting:
		return []view.Phase{view.Starting, view.Disabled}
	case view.Starting:
		return []view.Phase{view.Ready, view.Suspended, view.Disabled}
	case view.Ready:
		return []view.Phase{view.Running, view.Suspended, view.Disabled}
	case view.Running:
		return []view.Phase{view.Ready, view.Suspended, view.Disabled}
	case view.Suspended:
		return []view.Phase{view.Starting, view.Ready, view.Deleting, view.Disabled}
	case view.Deleting:
		return []view.Phase{view.Disabled}
	}
	return nil
}

// moduleLife is the phase of a module, and its maintenance.
type moduleLife struct {
	log   *slog.Logger
	phase view.Phase
	// maintenance is the mode, empty for none.
	maintenance string
	// missed are tasks that have ended while it was suspended.
	missed []messages.Task
	// resumes is where ResumeModule leads from suspended: starting or ready. It is kept while deleting.
	resumes view.Phase
}

// miss keeps a task that has ended because the module is switched off: when it is switched on again before it was
// deleted, nothing has happened (E14), and the task is due. Of the ticks of a schedule one is: the reload may be held up for days.
func (l *moduleLife) miss(p *program, t messages.Task) {
	if l.phase == view.Suspended && !slices.ContainsFunc(l.missed, func(kept messages.Task) bool { return repeats(t, kept) }) {
		l.missed = p.mergeIntoWaiting(l.missed, t)
	}
}

// become is the only way to change the phase.
func (l *moduleLife) become(to view.Phase) {
	if l.phase == to {
		return
	}
	changePhase(l.log, "module", l.phase, to, moduleTransitions(l.phase))
	switch {
	case to == view.Suspended && l.phase == view.Starting:
		l.resumes = view.Starting
	case to == view.Suspended:
		l.resumes = view.Ready // the run that was cancelled is queued again
	case to != view.Deleting:
		l.resumes = ""
	}
	l.phase = to
}

func (l *moduleLife) off() bool {
	switch l.phase {
	case view.Disabled, view.Waiting, view.Suspended, view.Deleting:
		return true
	}
	return false
}

// enabled: by the last discovery, and not deleted since. What an earlier process has left is deleted without that.
func (l *moduleLife) enabled() bool {
	return l.phase != view.Disabled && (l.phase != view.Deleting || l.resumes != "")
}

// started: the start-up execution was finished once (X13).
func (l *moduleLife) started() bool {
	return l.phase == view.Running || l.phase == view.Ready || l.resumes == view.Ready
}
