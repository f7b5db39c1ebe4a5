package actors

import (
	"log/slog"

	"addon-operator/messages"
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
func moduleTransitions(from messages.Phase) []messages.Phase {
	switch from {
	case messages.Disabled:
		return []messages.Phase{messages.Waiting, messages.Deleting}
	case messages.Waiting:
		return []messages.Phase{messages.Starting, messages.Disabled}
	case messages.Starting:
		return []messages.Phase{messages.Ready, messages.Suspended, messages.Disabled}
	case messages.Ready:
		return []messages.Phase{messages.Running, messages.Suspended, messages.Disabled}
	case messages.Running:
		return []messages.Phase{messages.Ready, messages.Suspended, messages.Disabled}
	case messages.Suspended:
		return []messages.Phase{messages.Starting, messages.Ready, messages.Deleting, messages.Disabled}
	case messages.Deleting:
		return []messages.Phase{messages.Disabled}
	}
	return nil
}

// moduleLife is the phase of a module.
type moduleLife struct {
	log   *slog.Logger
	phase messages.Phase
	// resumes is where ResumeModule leads from suspended: starting or ready. It is kept while deleting.
	resumes messages.Phase
}

// become is the only way to change the phase.
func (l *moduleLife) become(to messages.Phase) {
	if l.phase == to {
		return
	}
	changePhase(l.log, "module", l.phase, to, moduleTransitions(l.phase))
	switch {
	case to == messages.Suspended && l.phase == messages.Starting:
		l.resumes = messages.Starting
	case to == messages.Suspended:
		l.resumes = messages.Ready // the run that was cancelled is queued again
	case to != messages.Deleting:
		l.resumes = ""
	}
	l.phase = to
}

func (l *moduleLife) off() bool {
	switch l.phase {
	case messages.Disabled, messages.Waiting, messages.Suspended, messages.Deleting:
		return true
	}
	return false
}

// enabled: by the last discovery, and not deleted since. What an earlier process has left is deleted without that.
func (l *moduleLife) enabled() bool {
	return l.phase != messages.Disabled && (l.phase != messages.Deleting || l.resumes != "")
}

// started: the start-up execution was finished once (X13).
func (l *moduleLife) started() bool {
	return l.phase == messages.Running || l.phase == messages.Ready || l.resumes == messages.Ready
}
