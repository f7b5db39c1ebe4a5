package actors

import "addon-operator/messages"

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

// become is the only way to change the phase.
func (m *module) become(to messages.Phase) {
	if m.phase == to {
		return
	}
	changePhase(m.log, "module", m.phase, to, moduleTransitions(m.phase))
	switch {
	case to == messages.Suspended && m.phase == messages.Starting:
		m.resumes = messages.Starting
	case to == messages.Suspended:
		m.resumes = messages.Ready // the run that was cancelled is queued again
	case to != messages.Deleting:
		m.resumes = ""
	}
	m.phase = to
}

func (m *module) off() bool {
	switch m.phase {
	case messages.Disabled, messages.Waiting, messages.Suspended, messages.Deleting:
		return true
	}
	return false
}

// enabled: by the last discovery, and not deleted since. What an earlier process has left is deleted without that.
func (m *module) enabled() bool {
	return m.phase != messages.Disabled && (m.phase != messages.Deleting || m.resumes != "")
}

// started: the start-up execution was finished once (X13).
func (m *module) started() bool {
	return m.phase == messages.Running || m.phase == messages.Ready || m.resumes == messages.Ready
}
