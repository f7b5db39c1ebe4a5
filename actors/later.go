package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/messages"
)

// awaited is a queue or owner that waits for the snapshots of a hook.
type awaited struct {
	messages.AwaitSnapshots
	resync bool // as in [messages.SnapshotsComplete]
}

// asideDue is for a queue, by the root, as tasks are.
type asideDue struct {
	queue string
	done  messages.SnapshotsComplete
}

// synchronizeLater keeps a Synchronization that was deferred, once.
func (m *monitors) synchronizeLater(ctx actor.Context, msg messages.SynchronizeLater) {
	m.later = append(slices.DeleteFunc(m.later, deferred(msg.Owner, msg.Work)), msg)
	m.queueLater(ctx)
}

// deferred finds a Synchronization among those that are kept.
func deferred(owner string, w messages.SynchronizeHook) func(messages.SynchronizeLater) bool {
	return func(l messages.SynchronizeLater) bool {
		return l.Owner == owner && l.Work.Hook == w.Hook && slices.Equal(l.Work.Bindings, w.Bindings)
	}
}

func (m *monitors) awaitSnapshots(ctx actor.Context, msg messages.AwaitSnapshots) {
	if !slices.ContainsFunc(m.awaited, func(a awaited) bool { return a.AwaitSnapshots == msg }) {
		m.awaited = append(m.awaited, awaited{AwaitSnapshots: msg})
	}
	m.queueLater(ctx)
}

// queueLater queues the deferred Synchronizations whose bindings are complete by now, and
// notifies after them those that wait for the same.
func (m *monitors) queueLater(ctx actor.Context) {
	m.later = slices.DeleteFunc(m.later, func(l messages.SynchronizeLater) bool {
		complete := m.complete(l.Owner, l.Hook.Name)
		if complete {
			t := m.program.task(l.Owner, l.Work, messages.Cause{Activation: messages.BySync, Detail: "deferred"})
			t.Queue = l.Queue
			m.program.enqueue(ctx, false, t)
		}
		return complete
	})
	m.awaited = slices.DeleteFunc(m.awaited, func(a awaited) bool {
		complete := m.complete(a.Owner, a.Hook)
		if complete {
			done := messages.SnapshotsComplete{Owner: a.Owner, Hook: a.Hook, Resync: a.resync}
			if a.Queue != "" { // by the way of tasks, so that it does not overtake the Synchronizations
				ctx.Send(m.program.PID(operatorPath), asideDue{a.Queue, done})
			} else {
				ctx.Send(m.program.owner(a.Owner), done)
			}
		}
		return complete
	})
	m.lookLater(ctx)
}

// complete reports whether all snapshots of a hook are complete now, or it has none.
func (m *monitors) complete(owner, hook string) bool {
	return m.each(owner, hook, (*monitor).complete)
}

// synced reports whether all snapshots of a hook were complete once, and are not too large.
func (m *monitors) synced(owner, hook string) bool {
	return m.each(owner, hook, func(mon *monitor) bool { return mon.synced })
}

func (m *monitors) each(owner, hook string, is func(*monitor) bool) bool {
	for key, mon := range m.watches {
		if key.Owner == owner && key.Binding.Hook == hook && !is(mon) {
			return false
		}
	}
	return true
}

// complete reports whether the snapshot is, at this moment. It may be once and later not: a
// permission is lost, or a namespace begins to match (C17).
func (mon *monitor) complete() bool { return mon.synced && mon.watch.State().Whole() }
