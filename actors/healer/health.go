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

// objectStates has the health of all objects of releases that were read.
type objectStates struct {
	known map[helm.Object]assessed
	due   map[string]bool // modules whose objects have changed since they last got a report
}

// assessed is the health of an object.
type assessed struct {
	helm.Health
	since   time.Time // it is in this state, as far as this process has seen
	doubted bool      // Helm has written it since
}

// learn takes over the health of an object. One that stays in its state is in it since the beginning of that.
func (w *objectStates) learn(msg objectHealth, now time.Time) {
	old := w.known[msg.object]
	if old.State == msg.health.State {
		now = old.since
	}
	if msg.health.Images == "" {
		msg.health.Images = old.Images
	}
	w.known[msg.object] = assessed{Health: msg.health, since: now}
}

// deletionTime is how long heals wait for objects that are being deleted. After it, finalizers are taken to keep them.
const deletionTime = 10 * time.Second

// deleting reports whether an object has been marked for deletion a moment ago and is still there.
func (w *objectStates) deleting(now time.Time) bool {
	for _, known := range w.known {
		if known.State == view.ObjectTerminating && now.Sub(known.since) < deletionTime {
			return true
		}
	}
	return false
}

// doubt has objects unknown until they are read again: Helm has just written them.
func (w *objectStates) doubt(written []helm.Object) {
	for _, o := range written {
		if known, ok := w.known[o]; ok {
			known.doubted = true
			w.known[o] = known
		}
	}
}

// forget is called when an object is gone. If a release still has it, it counts as unknown.
func (w *objectStates) forget(o helm.Object) { delete(w.known, o) }

// of sums up the health of the objects of a release, which was applied at that time.
func (w *objectStates) of(objects []helm.Object, applied time.Time) *view.Health {
	if len(objects) == 0 {
		return nil
	}
	sum := &view.Health{Objects: len(objects), DeadlineSeconds: int(progressDeadline.Seconds())}
	for _, o := range objects {
		known := w.known[o]
		sum.Images = append(sum.Images, strings.Fields(known.Images)...)
		if known.State == "" || known.doubted {
			known = assessed{Health: helm.Health{State: view.ObjectUnknown, Message: "it does not exist, or has not been read yet"}, since: applied}
		}
		switch known.State {
		case view.ObjectCurrent:
			sum.Current++
			continue
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

// reportHealth reports to the modules whose objects have changed.
func (h *healer) reportHealth(ctx actor.Context) {
	for _, name := range slices.Sorted(maps.Keys(h.states.due)) {
		if r := h.releases[name]; r != nil {
			h.report(ctx, name, r)
		}
	}
	clear(h.states.due)
}

// report reports to a module how its objects are doing, and which are contested, if that has changed.
func (h *healer) report(ctx actor.Context, module string, r *releaseState) {
	now := work.HealthChanged{Contested: r.heals.contested()}
	if h.program.ReleaseWatch != nil {
		now.Health = h.states.of(r.standing(), r.applied)
	}
	if !reflect.DeepEqual(now, r.told) {
		r.told = now
		ctx.Send(h.program.Owner(module), now)
	}
}
