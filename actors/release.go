package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/helm"
	"addon-operator/messages/view"
)

// moduleRelease is what a module knows of its release, and of the objects in it.
type moduleRelease struct {
	owner *owner      // of the module
	life  *moduleLife // of the module

	last   helm.Outcome
	gone   []helm.Object // Helm must apply them again
	fights []string      // the field managers that heals of the release fight with
	health *view.Health  // of its objects
}

// runEnded says to the healer that the objects are as the run has left them.
func (r *moduleRelease) runEnded(ctx actor.Context) {
	if r.life.maintenance != "" || r.life.off() { // whatever Helm did before that began
		r.forget()
		return
	}
	ctx.Send(r.owner.program.PID(healerPath), runEnded{r.owner.name, len(r.owner.hooks.all) > 0})
}

// absent are the objects that are not there, if the module has hooks, which may have taken them away.
func (r *moduleRelease) absent() []helm.Object {
	watch := r.owner.program.ReleaseWatch
	if watch == nil || len(r.owner.hooks.all) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.last.Objects), watch.Present)
}

// forget says to the healer that the objects have no owner any more.
func (r *moduleRelease) forget() {
	r.gone = nil
	r.owner.program.Send(r.owner.program.PID(healerPath), moduleGone{r.owner.name})
}

// rests reports whether nothing changes the release, and it is not left alone.
func (r *moduleRelease) rests() bool {
	tasks := r.owner.tasks
	return r.life.phase == view.Ready && r.life.maintenance == "" && r.last.Action != "" && len(tasks.alone)+len(tasks.next) == 0
}
