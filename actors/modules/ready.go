package modules

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// awaitsReady is a run that asked, and what it knows.
type awaitsReady struct {
	run   *actor.PID
	known string
}

// unreadDue is when objects that were unknown until then no longer keep the module from being ready.
type unreadDue struct{}

// readiness is the part of a module that answers runs of other modules which wait until this one is
// ready (H26). A run is answered when the reason that keeps it from that changes; it asks again,
// with the reason that it knows, until there is none.
type readiness struct {
	program   *shared.Program
	awaiting  map[string]awaitsReady // by module
	unreadDue time.Time              // when the last timer for unread objects ends
}

// notReady is what keeps a module from being ready; empty for nothing.
func notReady(s view.ModuleStatus, now time.Time) string {
	if s.Phase != view.Ready {
		return "it is " + s.State(now)
	}
	v := view.Judge(view.Module{State: s.State(now), ModuleStatus: s})
	if v.Class == view.ClassReady {
		return ""
	}
	return cmp.Or(v.Message, string(v.Class))
}

// answer is called after every message.
func (r *readiness) answer(ctx actor.Context, s view.ModuleStatus) {
	if len(r.awaiting) == 0 {
		return
	}
	reason := notReady(s, time.Now())
	for _, waiter := range slices.Sorted(maps.Keys(r.awaiting)) {
		if a := r.awaiting[waiter]; a.known != reason {
			ctx.Send(a.run, work.Readiness{Reason: reason})
			delete(r.awaiting, waiter)
		}
	}
	if due := s.Health.ReadBy(); len(r.awaiting) > 0 && due.After(r.unreadDue) { // only time will change it
		r.unreadDue = due
		r.program.SendLater(ctx, time.Until(due), unreadDue{})
	}
}

// whenQuiet answers runs that wait until nothing of a module runs.
type whenQuiet struct {
	runs     *supervisor.Runs
	awaiting []*actor.PID
}

// answer is called after every message, because the end of a run is one.
func (q *whenQuiet) answer(ctx actor.Context) {
	if q.runs.Len() > 0 {
		return
	}
	for _, pid := range q.awaiting {
		ctx.Send(pid, work.ModuleQuiet{})
	}
	q.awaiting = nil
}
