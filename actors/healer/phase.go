package healer

import (
	"log/slog"

	"addon-operator/actors/shared"
)

// releasePhase is how far the run of a module is with its release. It decides what the absence of an object means, see
// healer.
//
//	created -RunBegan-> running -ReleaseApplied-> applied -RunEnded-> resting -RunBegan-> running
//
// A run may end without Helm: the module has no chart, waits for another module, or its run is cancelled. When a hook
// fails after Helm, the next attempt begins:
//
//	running -RunEnded-> resting     applied -RunBegan-> running
//
// The healer removes the state of a module that is switched off, although its run may continue. What this run reports
// afterwards creates the state again:
//
//	created -ReleaseApplied-> applied     created -RunEnded-> resting
type releasePhase string

const (
	created releasePhase = "created"
	running releasePhase = "running"
	applied releasePhase = "applied"
	resting releasePhase = "resting"
)

// Phases are the changes of phase that are drawn above.
func Phases() shared.Phases[releasePhase] {
	return shared.Phases[releasePhase]{
		created: {running, applied, resting},
		running: {applied, resting},
		applied: {resting, running},
		resting: {running},
	}
}

// releaseLife is the phase of a release.
type releaseLife struct {
	log   *slog.Logger
	phase releasePhase
}

// become is the only way to change the phase. It is called with the current one for an attempt that follows one that
// failed before Helm, and at the end of a run that was cancelled while it waited for another module.
func (l *releaseLife) become(to releasePhase) {
	if l.phase == to {
		return
	}
	Phases().Change(l.log, "release", l.phase, to)
	l.phase = to
}
