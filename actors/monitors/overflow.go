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

// againAfter is how long a binding that is too large is not tried again: an attempt reads the whole list, which costs
// the API server as much as the operator.
const againAfter = 30 * time.Second

func (m *monitors) overflowed(ctx actor.Context, msg watchOverflowed) {
	mon := m.watches[msg.watch]
	if mon == nil || mon.instance != msg.instance || mon.phase == tooLarge {
		return
	}
	mon.watch.Stop()
	m.giveUp(ctx, msg.watch, mon, mon.watch.State().Message)
}

// giveUp treats a binding that is too large like one that may not be read: its hook does not
// run, no other hook waits, and once it is complete again the hook gets a Synchronization of all
// its bindings, because it has missed events (P5).
func (m *monitors) giveUp(ctx actor.Context, key messages.WatchKey, mon *monitor, why string) {
	// An owner whose Synchronization has not shown the snapshot yet is notified by its refusal
	// (postpone); the others get another Synchronization.
	wasFilled := mon.isFilled()
	mon.giveUp(why + "; narrow the binding with selectors, or keep less with jqFilter and keepFullObjectsInMemory: false")
	m.log.Error("a binding is too large: its hook does not run", "owner", key.Owner, "hook", mon.hook.Name,
		"binding", mon.binding.Name, "kind", mon.binding.Kind, "err", mon.overflow, "again", againAfter)
	text := fmt.Sprintf("hook %s does not run: its binding %s is too large: %s", mon.hook.Name, mon.binding.Name, mon.overflow)
	m.program.Notify(kube.Notice{Warning: true, Reason: "SnapshotTooLarge", Message: text})
	if wasFilled {
		for _, w := range work.Synchronizations(mon.hook) {
			w.Late, w.Again, w.Instead = true, true, mon.hook.Config.Version != hooks.V0 // which knows no Synchronization
			m.waiters.synchronize(ctx, messages.SynchronizeLater{
				Owner: key.Owner, Queue: mon.hook.Config.Kubernetes[w.Bindings[0]].Queue, Hook: mon.hook, Work: w,
			})
		}
	}
	m.program.SendLater(ctx, againAfter, watchAgain{key, mon.instance})
}

// again fills the watch again, as at the first time.
func (m *monitors) again(ctx actor.Context, msg watchAgain) {
	mon := m.watches[msg.watch]
	if mon == nil || mon.instance != msg.instance {
		return
	}
	mon.become(filling)
	if err := m.fill(ctx, msg.watch, mon); err != nil { // it was right the first time
		m.log.Error("bug: a watch cannot be filled again", "hook", mon.hook.Name, "binding", mon.binding.Name, "err", err)
	}
}
