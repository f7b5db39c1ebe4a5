package modules

import (
	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/messages/view"
)

// moduleRelease is what a module knows of its release and of the objects in it.
type moduleRelease struct {
	owner *owner      // of the module
	life  *moduleLife // of the module

	last    helm.Outcome // of the last run that asked Helm; the zero value before
	held    string       // why an upgrade waits for a person, and what allows it; empty for none
	allowed string       // what a person has allowed, until a run has ended that could use it
}

// noteHeld notes whether the run that has ended was held back, and reports it once. A confirmation is valid once,
// and for exactly the objects that it names; one that came during the run is for the next.
func (r *moduleRelease) noteHeld(hold *helm.Hold) {
	log, before := r.owner.log, r.held
	if hold == nil {
		if r.held, r.allowed = "", ""; before != "" {
			log.Info("no upgrade is held back any longer")
		}
		return
	}
	if r.allowed != "" && r.allowed != hold.Confirm {
		log.Warn("a confirmation does not match the upgrade that is held back now; it is not used",
			"value", r.allowed, "want", hold.Confirm)
		r.allowed = ""
	}
	names := make([]string, len(hold.Objects))
	for i, o := range hold.Objects {
		names[i] = o.String()
	}
	confirm := r.owner.program.ConfirmCommand(hold.Confirm)
	if r.held = view.HeldUpgrade(names, hold.Why, confirm); r.held == before {
		return
	}
	log.Warn("an upgrade is held back until a person allows it, or the change is taken back",
		"objects", names[:min(len(names), 20)], "count", len(names), "why", hold.Why, "confirm", confirm)
	text := "module " + r.owner.name + ": " + r.held
	r.owner.program.Notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "UpgradeHeld", Message: text})
}

// runEnded has the release forgotten if the run has ended under maintenance, or after the module was switched off:
// whatever Helm did before that began.
func (r *moduleRelease) runEnded(actor.Context) {
	if r.life.maintenance != "" || r.life.off() {
		r.forget()
	}
}

// forget notifies the healer that no module owns the objects any more, so that it heals none of
// them.
func (r *moduleRelease) forget() {
	r.owner.program.Send(r.owner.program.PID(work.HealerPath), work.ReleaseApplied{Module: r.owner.name})
}

// rests reports whether nothing changes the release now and it is under no maintenance: only then
// can drift be distinguished from work in progress.
func (r *moduleRelease) rests() bool {
	tasks := r.owner.tasks
	return r.life.phase == view.Ready && r.life.maintenance == "" && r.last.Action != "" && tasks.ofRelease() == nil && tasks.next == nil
}
