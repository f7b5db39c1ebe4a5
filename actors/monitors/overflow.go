package monitors

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
)

// watchOverflowed says that a watch is too large and keeps nothing any more.
type watchOverflowed struct {
	watch    messages.WatchKey
	instance uint64
}

// watchAgain is sent by a timer when it is time to see whether the snapshot fits now.
type watchAgain watchOverflowed

// againAfter is how long a snapshot that is too large is not tried again: 5 s doubling to 5 min. An
// attempt reads the whole list, which costs the API server as much as the operator.
func againAfter(overflows int) time.Duration {
	const first, most, doublings = 5 * time.Second, 5 * time.Minute, 6
	return min(first<<min(overflows-1, doublings), most)
}

// overflowed treats a snapshot that is too large like one that may not be read: its hook does not
// run, no other hook waits, and once it is complete again the hook gets a Synchronization of all
// its bindings, because it has missed events (P5).
func (m *monitors) overflowed(ctx actor.Context, msg watchOverflowed) {
	mon := m.watches[msg.watch]
	if mon == nil || mon.instance != msg.instance || mon.phase == tooLarge {
		return
	}
	// An owner whose Synchronization has not shown the snapshot yet is notified by its refusal
	// (postpone); the others get another Synchronization.
	wasFilled := mon.isFilled()
	mon.giveUp()
	delay := againAfter(mon.overflows)
	mon.overflow += "; narrow the binding with selectors, or keep less with jqFilter and keepFullObjectsInMemory: false"
	m.log.Error("the snapshot of a binding is too large: its hook does not run", "owner", msg.watch.Owner, "hook", mon.hook.Name, "binding", mon.binding.Name, "kind", mon.binding.Kind, "err", mon.overflow, "again", delay)
	m.program.Notify(kube.Notice{Warning: true, Reason: "SnapshotTooLarge", Message: fmt.Sprintf("hook %s does not run: the snapshot of its binding %s is too large: %s", mon.hook.Name, mon.binding.Name, mon.overflow)})
	if wasFilled {
		for _, w := range work.Synchronizations(mon.hook) {
			w.Late, w.Again, w.Instead = true, true, mon.hook.Config.Version != hooks.V0 // which knows no Synchronization
			m.waiters.synchronize(ctx, messages.SynchronizeLater{
				Owner: msg.watch.Owner, Queue: mon.hook.Config.Kubernetes[w.Bindings[0]].Queue, Hook: mon.hook, Work: w,
			})
		}
	}
	m.program.SendLater(ctx, delay, watchAgain(msg))
}

// again fills the watch again, as at the first time.
func (m *monitors) again(ctx actor.Context, msg watchAgain) {
	mon := m.watches[msg.watch]
	if mon == nil || mon.instance != msg.instance {
		return
	}
	mon.become(refilling)
	if err := m.fill(ctx, msg.watch, mon); err != nil { // it was right the first time
		m.log.Error("bug: a watch cannot be filled again", "hook", mon.hook.Name, "binding", mon.binding.Name, "err", err)
	}
}
