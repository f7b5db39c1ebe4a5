package actors

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/helm"
	"addon-operator/messages/view"
)

// The healer also knows how the objects of releases are doing, and shows it (H25). What the watches report of many
// objects at once is one message, in the order of the reports.
type (
	objectNews struct {
		object helm.Object
		gone   bool
		health helm.Health // of one that is not gone
		before *objectNews // reported before
	}
	objectsSeen struct{}
)

// shownUnhealthy bounds the unhealthy objects that a module shows, and its images.
const shownUnhealthy = 20

// objectStates has the health of all objects of releases that were read.
type objectStates map[helm.Object]assessed

// assessed is the health of an object.
type assessed struct {
	helm.Health
	since time.Time // it is in this state, as far as this process has seen
}

// learn takes over the health of an object. One that stays in its state is in it since the beginning of that.
func (w objectStates) learn(o helm.Object, health helm.Health, now time.Time) {
	old := w[o]
	if old.State == health.State {
		now = old.since
	}
	w[o] = assessed{Health: health, since: now}
}

// deletionTime is how long heals wait for objects that are being deleted. After it, finalizers are taken to keep them.
const deletionTime = 10 * time.Second

// deleting reports whether an object has been marked for deletion a moment ago and is still there.
func (w objectStates) deleting(now time.Time) bool {
	for _, known := range w {
		if known.State == view.ObjectTerminating && now.Sub(known.since) < deletionTime {
			return true
		}
	}
	return false
}

// of sums up the health of the objects of a release, which was applied at that time.
func (w objectStates) of(objects []helm.Object, applied time.Time) *view.Health {
	if len(objects) == 0 {
		return nil
	}
	sum := &view.Health{Objects: len(objects)}
	for _, o := range objects {
		known := w[o]
		sum.Images = append(sum.Images, strings.Fields(known.Images)...)
		if known.State == "" {
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

// note keeps what a watch reports until the healer looks at it.
func (h *healer) note(self *actor.PID, news objectNews) {
	for news.before = h.seen.Load(); !h.seen.CompareAndSwap(news.before, &news); {
		news.before = h.seen.Load()
	}
	if news.before == nil {
		h.program.Send(self, objectsSeen{})
	}
}

// objectsSeen learns what the watches have reported, and sums it up once for each module.
func (h *healer) objectsSeen(ctx actor.Context) {
	var seen []*objectNews
	for last := h.seen.Swap(nil); last != nil; last = last.before {
		seen = append(seen, last)
	}
	modules := map[string]bool{}
	for _, news := range slices.Backward(seen) {
		if news.gone {
			delete(h.states, news.object) // if a release still has it, it counts as unknown
			h.objectGone(ctx, news.object)
		} else {
			h.states.learn(news.object, news.health, time.Now())
			h.exists(news.object)
		}
		for _, name := range h.owners[news.object] {
			modules[name] = true
		}
	}
	h.report(slices.Collect(maps.Keys(modules))...)
}

// report sums up how the objects of releases are doing, for all that show it.
func (h *healer) report(modules ...string) {
	for _, name := range modules {
		r := h.releases[name]
		if r == nil || h.program.ReleaseWatch == nil {
			continue
		}
		if now := h.states.of(r.standing(), r.applied); !reflect.DeepEqual(now, r.health) {
			r.health = now
			h.program.Changed.Note(name)
		}
	}
}
