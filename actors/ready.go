package actors

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/messages/view"
)

// Runs of other modules may wait until this one is ready (H26). They are answered when what keeps it from that changes;
// they ask again until it is nothing.

// awaitsReady is a run that asked, and what it knows.
type awaitsReady struct {
	run   *actor.PID
	known string
}

// unreadDue is when objects that were unknown until then no longer keep the module from being ready.
type unreadDue struct{}

// notReady is what keeps the module from being ready; empty for nothing.
func (m *module) notReady(now time.Time) string {
	s := view.ModuleStatus{Phase: m.life.phase, Health: m.health}
	switch state := s.State(now); {
	case state == string(view.Ready):
		return ""
	case s.Phase != view.Ready:
		return "it is " + state
	}
	return m.health.Unhealthy[0].String()
}

// answerReady is called after every message.
func (m *module) answerReady(ctx actor.Context) {
	if len(m.awaitReady) == 0 {
		return
	}
	reason := m.notReady(time.Now())
	for _, waiter := range slices.Sorted(maps.Keys(m.awaitReady)) {
		if a := m.awaitReady[waiter]; a.known != reason {
			ctx.Send(a.run, work.Readiness{Reason: reason})
			delete(m.awaitReady, waiter)
		}
	}
	if due := m.health.ReadBy(); len(m.awaitReady) > 0 && due.After(m.unreadDue) { // only time will change it
		m.unreadDue = due
		self := ctx.Self()
		time.AfterFunc(time.Until(due), func() { m.program.Send(self, unreadDue{}) })
	}
}
