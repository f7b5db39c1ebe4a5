package monitors

import (
	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/messages"
)

// resyncDue is sent by a timer when the resynchronizationPeriod of a binding has passed.
type resyncDue struct {
	watch messages.WatchKey
	// mon tells a late message of a watch that was stopped from one of its successor: after the
	// module was disabled and enabled, the key is the same and the monitor another one.
	mon *monitor
}

// resyncLater starts the period again. It begins with the end of the first Synchronization (C15),
// and again each time it has passed.
func (m *monitors) resyncLater(ctx actor.Context, key messages.WatchKey, mon *monitor) {
	if mon.binding.ResynchronizationPeriod <= 0 {
		return
	}
	if mon.resync != nil {
		mon.resync.Stop()
	}
	mon.resync = m.program.SendLater(ctx, mon.binding.ResynchronizationPeriod, resyncDue{key, mon})
}

// resync queues another Synchronization of a binding (C15). It comes in addition to the events,
// which are neither held nor dropped for it: the hook knows the objects already, and a Deleted that
// it missed could not be made up for. The queue drops it if one that waits or runs is equal.
func (m *monitors) resync(ctx actor.Context, due resyncDue) {
	mon := m.watches[due.watch]
	if mon == nil || mon != due.mon {
		return
	}
	m.resyncLater(ctx, due.watch, mon)
	synchronize := messages.SynchronizeHook{
		Hook: mon.hook.Name, Bindings: []int{due.watch.Binding.Index}, Names: []string{mon.binding.Name}, Again: true,
	}
	if m.waiters.defers(due.watch.Owner, synchronize) {
		return // it waits for a snapshot
	}
	t := m.program.NewTask(due.watch.Owner, synchronize, messages.Cause{Activation: messages.BySync, Detail: "resynchronizationPeriod of binding " + mon.binding.Name})
	t.Queue = mon.binding.Queue
	m.program.Enqueue(ctx, false, t)
}
