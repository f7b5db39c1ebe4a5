package healer

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/messages/view"
)

// The healer also knows how the objects of releases are doing, and reports that to their modules (H25). What the watches
// report of many objects at once becomes one report for each module:
//
//	watch -objectHealth-> healer -healthDue-> healer -HealthChanged-> module
type (
	objectHealth struct {
		object helm.Object
		health helm.Health
	}
	healthDue struct{}
)

const (
	// shownUnhealthy bounds the unhealthy objects that a module shows, and its images.
	shownUnhealthy = 20
	// progressDeadline is the time after which an object that is in progress is a problem (H25): that of Deployments.
	progressDeadline = 10 * time.Minute
)

// objectStates has the health of all objects of releases. Most are current, and take only an entry
// in known.
type objectStates struct {
	objects map[helm.Object]assessed // those that are not current
	known   map[helm.Object]bool     // all that were read since Helm has written them last
	images  map[helm.Object]string   // of workloads
	due     map[string]bool          // modules whose objects have changed since they last got a report
}

// assessed is the health of an object that is not current.
type assessed struct {
	helm.Health
	since time.Time // it is in this state, as far as this process has seen
}

func newObjectStates() objectStates {
	return objectStates{objects: map[helm.Object]assessed{}, known: map[helm.Object]bool{}, images: map[helm.Object]string{}, due: map[string]bool{}}
}

// learn takes over the health of an object. One that stays in its state is in it since the beginning of that.
func (w *objectStates) learn(msg objectHealth, now time.Time) {
	w.known[msg.object] = true
	if msg.health.Images != "" {
		w.images[msg.object] = msg.health.Images
	}
	if msg.health.State == view.ObjectCurrent {
		delete(w.objects, msg.object)
		return
	}
	if old, ok := w.objects[msg.object]; ok && old.State == msg.health.State {
		now = old.since
	}
	w.objects[msg.object] = assessed{msg.health, now}
}

// doubt has objects unknown until they are read again: Helm has just written them.
func (w *objectStates) doubt(written []helm.Object) {
	for _, o := range written {
		delete(w.known, o)
	}
}

// forget is called when an object is gone. If a release still has it, it counts as unknown.
func (w *objectStates) forget(o helm.Object) {
	delete(w.objects, o)
	delete(w.known, o)
	delete(w.images, o)
}

// of sums up the health of the objects of a release, which was applied at that time.
func (w *objectStates) of(objects []helm.Object, applied time.Time) *view.Health {
	if len(objects) == 0 {
		return nil
	}
	sum := &view.Health{Objects: len(objects), DeadlineSeconds: int(progressDeadline.Seconds())}
	for _, o := range objects {
		sum.Images = append(sum.Images, strings.Fields(w.images[o])...)
		known := w.objects[o]
		switch {
		case !w.known[o]:
			known = assessed{helm.Health{State: view.ObjectUnknown, Message: "it does not exist, or has not been read yet"}, applied}
		case known.State == "":
			sum.Current++
			continue
		}
		switch known.State {
		case view.ObjectFailed:
			sum.Failed++
		case view.ObjectUnknown:
			sum.Unknown++
		default:
			sum.InProgress++
		}
		sum.Unhealthy = append(sum.Unhealthy, view.ObjectHealth{Object: o.String(), State: known.State, Message: known.Message, Since: known.since})
	}
	slices.SortFunc(sum.Unhealthy, func(a, b view.ObjectHealth) int {
		return cmp.Or(cmp.Compare(severity(a.State), severity(b.State)), a.Since.Compare(b.Since), cmp.Compare(a.Object, b.Object))
	})
	slices.Sort(sum.Images)
	sum.Images = slices.Compact(sum.Images)
	sum.Images = slices.Clip(sum.Images[:min(len(sum.Images), shownUnhealthy)])
	sum.Unhealthy = slices.Clip(sum.Unhealthy[:min(len(sum.Unhealthy), shownUnhealthy)])
	return sum
}

// standing are the objects of a release, but for those that have ended.
func (r *releaseState) standing() []helm.Object {
	return slices.DeleteFunc(slices.Clone(r.objects), func(o helm.Object) bool { return r.ends[o] })
}

// severity orders states, the worst first.
func severity(state string) int {
	return slices.Index([]string{view.ObjectFailed, view.ObjectTerminating, view.ObjectInProgress, view.ObjectUnknown}, state)
}

// reassess has the health of modules summed up when the messages that wait now are handled:
// healthDue comes behind them in the mailbox. So a list of hundreds of objects leads to one report
// of a module.
func (h *healer) reassess(ctx actor.Context, modules ...string) {
	if h.program.ReleaseWatch == nil {
		return // no one would report it
	}
	if len(h.states.due) == 0 && len(modules) > 0 {
		h.program.Send(ctx.Self(), healthDue{})
	}
	for _, name := range modules {
		h.states.due[name] = true
	}
}

// reportNow reports to one module before its run ends, and has what Helm wrote read again. The
// report is sent before the answer to the run, so the module has it when the run ends (H25).
func (h *healer) reportNow(ctx actor.Context, msg work.ReleaseApplied) {
	if r := h.releases[msg.Module]; r != nil && h.program.ReleaseWatch != nil {
		if msg.Wrote {
			r.applied = time.Now()
			h.states.doubt(r.objects)
		}
		h.states.due[msg.Module] = true
		h.reportHealth(ctx)
		if msg.Wrote {
			h.assess(r.objects)
		}
	}
	ctx.Respond(work.HealthReported{})
}

// reportHealth reports to modules how their objects are doing, if that has changed.
func (h *healer) reportHealth(ctx actor.Context) {
	for _, name := range slices.Sorted(maps.Keys(h.states.due)) {
		r := h.releases[name]
		if r == nil {
			continue // it learned of that when it was forgotten
		}
		if now := h.states.of(r.standing(), r.applied); !reflect.DeepEqual(now, r.health) {
			r.health = now
			ctx.Send(h.program.Owner(name), work.HealthChanged{Health: now})
		}
	}
	clear(h.states.due)
}
