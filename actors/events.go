package actors

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// objectChanged is step 1 of the way of a task (docs/architecture.md): a change becomes a task in the queue of the
// binding, or is held while a Synchronization runs, or is dropped because the next one shows it.
func (m *monitors) objectChanged(ctx actor.Context, msg messages.ObjectChanged) {
	mon := m.watches[msg.Watch]
	switch {
	case mon == nil:
		m.program.Metrics.Bindings.Missing(msg.Watch)
	case msg.Instance != mon.instance: // an event of an earlier watch
	case mon.open && msg.Seq <= mon.seen:
	case m.standby, !mon.open && len(mon.runs) == 0: // the next Synchronization will see it
	case !mon.open:
		m.hold(mon, msg)
	default:
		m.queueEvent(ctx, mon, msg)
		m.program.Metrics.Bindings.Queued(msg.Watch, mon.binding, msg.Arrived)
		mon.seen = msg.Seq
	}
}

func (m *monitors) queueEvent(ctx actor.Context, mon *monitor, msg messages.ObjectChanged) {
	b := mon.binding
	if !slices.Contains(b.Events, msg.Event) {
		return
	}
	object := objectID{msg.Namespace, msg.Name}
	l := m.linkOf(mon, msg)
	t := m.program.task(msg.Watch.Owner, messages.RunHook{
		Hook: mon.hook.Name, Binding: hooks.OnKubernetes, Triggers: []messages.Trigger{eventTrigger(mon, msg)},
	}, l.cause)
	t.Queue, t.AllowFailure = b.Queue, b.AllowFailure
	if l.over > 0 {
		m.slow(ctx, msg.Watch, mon, object, t, l)
		return
	}
	m.program.enqueue(ctx, false, append(mon.overtaken(object, t.Cause), t)...)
}

// hold keeps an event until the Synchronization has succeeded. When there are too many, another
// Synchronization replaces them; in protocol v0, which has none, the oldest go.
func (m *monitors) hold(mon *monitor, msg messages.ObjectChanged) {
	size := func(c messages.ObjectChanged) int { return len(c.Object.Object) + len(c.Object.FilterResult) }
	over := func() bool { return len(mon.held) > maxTriggers || mon.heldBytes > maxWaiting }
	if mon.flooded {
		return
	}
	mon.held = append(mon.held, msg)
	for mon.heldBytes += size(msg); over() && mon.hook.Config.Version == hooks.V0; mon.held = mon.held[1:] {
		mon.heldBytes -= size(mon.held[0])
	}
	if over() {
		dropped := len(mon.held)
		mon.forgetHeld()
		mon.flooded, mon.dropped = true, dropped
	}
}

// resyncHeld queues a Synchronization in place of the events that were too many to be held.
func (m *monitors) resyncHeld(ctx actor.Context, key messages.WatchKey, mon *monitor) {
	t := m.program.task(key.Owner, messages.RunHook{
		Hook: mon.hook.Name, Binding: hooks.OnKubernetes, Resync: []messages.KubernetesBinding{{Index: key.Binding.Index, Name: mon.binding.Name}},
	}, messages.Cause{Activation: messages.BySync, Detail: "too many events of binding " + mon.binding.Name})
	t.Queue, t.AllowFailure = mon.binding.Queue, mon.binding.AllowFailure
	m.program.runs.Overflowed(t, []work.Overflow{{Binding: mon.binding.Name, Events: mon.dropped}})
	m.program.enqueue(ctx, false, t)
}

// eventTrigger is the context of an event in the protocol of its hook (C31, C32).
func eventTrigger(mon *monitor, msg messages.ObjectChanged) messages.Trigger {
	b := mon.binding
	t := messages.Trigger{Snapshots: b.Snapshots, Binding: hooks.OnKubernetes, Index: msg.Watch.Binding.Index}
	switch {
	case mon.hook.Config.Version == hooks.V0:
		t.Context = hooks.Context{Binding: b.Name, WatchEvent: msg.Event, Resource: &hooks.Resource{Namespace: msg.Namespace, Kind: kindOf(mon), Name: msg.Name}}
	case b.Group != "":
		t.Context = hooks.Context{Binding: b.Name, Type: hooks.TypeGroup, GroupName: b.Group}
	default:
		t.Context = hooks.Context{
			Binding: b.Name, Type: hooks.TypeEvent, WatchEvent: msg.Event,
			Object: msg.Object.Object, FilterResult: msg.Object.FilterResult,
		}
	}
	return t
}

// kindOf is the kind as the API server spells it, whatever the hook wrote (C22).
func kindOf(mon *monitor) string { return cmp.Or(mon.watch.State().Kind, mon.binding.Kind) }

// unlock ends the Synchronization of a binding: each held event becomes a task, unless the run saw it (C40).
func (m *monitors) unlock(ctx actor.Context, msg messages.UnlockBinding) {
	mon := m.watches[msg.Watch]
	if mon == nil || mon.open {
		return
	}
	mon.seen = max(mon.seen, msg.Seen)
	for _, change := range mon.held {
		if change.Seq > mon.seen {
			m.queueEvent(ctx, mon, change)
			mon.seen = change.Seq
		}
	}
	m.resyncLater(ctx, msg.Watch, mon)
	if mon.flooded {
		m.resyncHeld(ctx, msg.Watch, mon)
	}
	mon.forgetHeld()
	mon.open = true
}

func (mon *monitor) forgetHeld() { mon.held, mon.heldBytes, mon.flooded = nil, 0, false }
