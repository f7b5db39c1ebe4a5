package converge

import (
	"addon-operator/actors/shared"
	"addon-operator/messages/view"
)

// convergePhase is where 'reload all modules' is.
//
//	created -Started-> starting -ReloadModules-> reloading -FinishReload-> idle
//	idle -request-> requested -ReloadModules-> reloading
//	reloading -request-> overtaken -ReloadModules-> reloading
//	reloading -request-> postponed -FinishReload-> requested     (after three in a row)
//	postponed -ReloadModules-> reloading     (the head of the one in progress fails)
//	postponed -files-> overtaken     (global hooks have changed)
//
// In starting, requested, overtaken and postponed the task ReloadModules waits in the main queue, and one is enough (F9).
// In reloading and postponed the steps of the reload are there. What is left of the steps of one that is overtaken is
// dropped, and what has begun ends without effect (F10).
type convergePhase string

const (
	created   convergePhase = "created"
	starting  convergePhase = "starting"
	idle      convergePhase = "idle"
	requested convergePhase = "requested"
	reloading convergePhase = "reloading"
	overtaken convergePhase = "overtaken"
	postponed convergePhase = "postponed"
)

// Phases are the changes of phase that are drawn above.
func Phases() shared.Phases[convergePhase] {
	return shared.Phases[convergePhase]{
		created:   {starting},
		idle:      {requested},
		starting:  {reloading},
		requested: {reloading},
		overtaken: {reloading},
		reloading: {idle, overtaken, postponed},
		postponed: {requested, reloading, overtaken},
	}
}

// become is the only way to change the phase. What is shown of all modules follows from it: a change that is due is not in
// force (J14).
func (r *reloads) become(to convergePhase) {
	Phases().Change(r.log, "converge", r.phase, to)
	r.phase = to
	r.program.Changed.Note("")
}

// begun: the first reload has.
func (p convergePhase) begun() bool { return p != created && p != starting }

// shown is the phase as people see it.
func (p convergePhase) shown() string {
	switch p {
	case created, starting:
		return view.ConvergeStarting
	case idle:
		return view.ConvergeIdle
	}
	return view.ConvergeReloading
}
