package monitors

import (
	"cmp"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// objectChanged is a change of an object that passed the filter of a binding.
type objectChanged struct {
	Watch messages.WatchKey
	// Instance distinguishes the watch from earlier ones with the same key.
	Instance uint64
	Seq      uint64
	// Event is Added, Modified or Deleted.
	Event           string
	Namespace, Name string
	Version         string // resourceVersion; empty for an object that was found to be gone
	Object          hooks.Object
	Arrived         time.Time
}

// watchSynced notifies monitors that the first list of a binding is complete, or that it is
// complete again.
type watchSynced struct {
	Watch    messages.WatchKey
	Instance uint64 // as in objectChanged
}

// objectChanged is step 1 of the way of a task (docs/architecture.md): a change becomes a task in
// the queue of the binding, is held while a Synchronization runs, or is dropped because the next
// Synchronization shows it.
func (m *monitors) objectChanged(ctx actor.Context, msg objectChanged) {
	mon := m.watches[msg.Watch]
	switch {
	case mon == nil:
		m.program.Metrics.Bindings.Missing(msg.Watch)
	case msg.Instance != mon.instance: // an event of an earlier watch; the list of the new one shows it
	case mon.phase == showing:
		if mon.hold(msg) {
			m.giveUp(ctx, msg.Watch, mon, "too many events came while its Synchronization was in progress")
		}
	case mon.phase == open && msg.Seq > mon.seen:
		m.queueEvent(ctx, mon, msg)
		m.program.Metrics.Bindings.Queued(msg.Watch, mon.binding, msg.Arrived)
		mon.seen = msg.Seq
	}
}

// queueEvent makes a task of an event, if the binding asks for this type.
func (m *monitors) queueEvent(ctx actor.Context, mon *monitor, msg objectChanged) {
	b := mon.binding
	if !slices.Contains(b.Events, msg.Event) { // it still counts as seen: the snapshot has changed
		return
	}
	t := m.program.NewTask(msg.Watch.Owner, messages.RunHook{
		Hook: mon.hook.Name, Binding: hooks.OnKubernetes, Triggers: []messages.Trigger{eventTrigger(mon, msg)},
	}, messages.Cause{Activation: messages.ByKubernetes, Detail: describeEvent(mon, msg)})
	t.Queue, t.AllowFailure = b.Queue, b.AllowFailure
	m.program.Enqueue(ctx, false, t)
}

// describeEvent is what a cause says of an event.
func describeEvent(mon *monitor, msg objectChanged) string {
	name := msg.Name
	if msg.Namespace != "" {
		name = msg.Namespace + "/" + name
	}
	return mon.binding.Kind + " " + name + " " + msg.Event + ", binding " + mon.binding.Name
}

// eventTrigger is the context of an event in the protocol of its hook (C31, C32).
func eventTrigger(mon *monitor, msg objectChanged) messages.Trigger {
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

// synchronized ends the Synchronization of a binding: each held event becomes a task, unless the run saw
// it (C40). Not so when the binding is open already, or when the run has shown an earlier instance of
// its watch: the number of a change means nothing to another instance, and would hide its events.
func (m *monitors) synchronized(ctx actor.Context, shown messages.Shown) {
	mon := m.watches[shown.Watch]
	if mon == nil || mon.instance != shown.Instance || mon.phase != showing {
		return
	}
	for _, change := range mon.open(shown.Seen) {
		m.queueEvent(ctx, mon, change)
	}
}
