package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// synchronizeLater keeps a Synchronization that was deferred, once.
func (m *monitors) synchronizeLater(ctx actor.Context, msg messages.SynchronizeLater) {
	same := func(l messages.SynchronizeLater) bool {
		return l.Owner == msg.Owner && l.Work.Hook == msg.Work.Hook && slices.Equal(l.Work.Bindings, msg.Work.Bindings)
	}
	m.state.later = append(slices.DeleteFunc(m.state.later, same), msg)
	m.queueLater(ctx)
}

// tickLater keeps the first of the ticks that come while the hook waits: what a hook does
// at each tick it need not do again for those it has missed.
func (m *monitors) tickLater(ctx actor.Context, msg messages.TickLater) {
	if !slices.ContainsFunc(m.state.ticks, func(kept messages.TickLater) bool { return sameTick(kept.Task, msg.Task) }) {
		m.state.ticks = append(m.state.ticks, msg)
	}
	m.queueLater(ctx)
}

// sameTick reports whether two tasks are ticks of the same schedule of a hook.
func sameTick(a, b messages.Task) bool {
	x, tick := a.Work.(messages.RunHook)
	y, tock := b.Work.(messages.RunHook)
	return tick && tock && x.Binding == hooks.OnSchedule && y.Binding == hooks.OnSchedule && a.Owner == b.Owner && x.Hook == y.Hook &&
		slices.EqualFunc(x.Triggers, y.Triggers, func(t, u messages.Trigger) bool { return t.Index == u.Index })
}

// queueLater queues the deferred Synchronizations, and the ticks behind them, whose
// bindings are complete by now.
func (m *monitors) queueLater(ctx actor.Context) {
	m.state.later = slices.DeleteFunc(m.state.later, func(l messages.SynchronizeLater) bool {
		complete := m.complete(l.Owner, l.Hook)
		if complete {
			t := m.program.task(l.Owner, l.Work, messages.Cause{Activation: messages.BySync, Detail: "deferred"})
			t.Queue = l.Queue
			m.program.enqueue(ctx, false, t)
		}
		return complete
	})
	m.state.ticks = slices.DeleteFunc(m.state.ticks, func(l messages.TickLater) bool {
		complete := m.complete(l.Task.Owner, l.Hook)
		if complete {
			m.program.enqueue(ctx, false, l.Task)
		}
		return complete
	})
}

// complete reports whether all snapshots of a hook are.
func (m *monitors) complete(owner string, hook hooks.Hook) bool {
	for i := range hook.Config.Kubernetes {
		if mon := m.state.watches[messages.WatchKey{Owner: owner, Binding: bindingKey(hook, i)}]; mon == nil || !mon.synced {
			return false
		}
	}
	return true
}
