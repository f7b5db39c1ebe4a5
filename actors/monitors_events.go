package actors

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/kube"
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
		m.program.Metrics.EventMissed(msg.Watch)
	case msg.Instance != mon.instance: // an event of an earlier watch; the list of the new one shows it
	case mon.phase == showing:
		if mon.hold(msg) {
			m.giveUp(ctx, msg.Watch, mon, "too many events came while its Synchronization was in progress")
		}
	case mon.phase == open && msg.Seq > mon.seen:
		m.queueEvent(ctx, mon, msg)
		m.program.Metrics.eventSeconds.WithLabelValues(watchLabels(msg.Watch, mon.binding)...).Observe(seconds(msg.Arrived))
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
	}, messages.Cause{Activation: messages.ByKubernetes, Detail: fmt.Sprintf("%s %s %s, binding %s", b.Kind, path.Join(msg.Namespace, msg.Name), msg.Event, b.Name)})
	t.Queue, t.AllowFailure = b.Queue, b.AllowFailure
	m.program.Enqueue(ctx, false, t)
}

// eventTrigger is the context of an event in the protocol of its hook (C31, C32).
func eventTrigger(mon *monitor, msg objectChanged) messages.Trigger {
	b := mon.binding
	t := messages.Trigger{Snapshots: b.Snapshots, Binding: hooks.OnKubernetes, Index: msg.Watch.Binding.Index}
	switch {
	case mon.hook.Config.Version == hooks.V0:
		kind := cmp.Or(mon.watch.State().Kind, b.Kind) // as the API server spells it, whatever the hook wrote (C22)
		t.Context = hooks.Context{Binding: b.Name, WatchEvent: msg.Event, Resource: &hooks.Resource{Namespace: msg.Namespace, Kind: kind, Name: msg.Name}}
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

// snapshotRequest waits until all bindings of its hook are complete.
type snapshotRequest struct {
	from *actor.PID
	msg  messages.GetSnapshots
}

// lookAgain is sent by a timer while runs wait for snapshots: whether a kind is missing
// or forbidden shows only in the state of its watch.
type lookAgain struct{}

// lookEvery is how often the states of watches are looked at while someone waits for them.
const lookEvery = 500 * time.Millisecond

// synchronizeLater keeps a Synchronization that was deferred, as one with an equal one that waits.
func (m *monitors) synchronizeLater(ctx actor.Context, msg messages.SynchronizeLater) {
	m.later = append(slices.DeleteFunc(m.later, func(l messages.SynchronizeLater) bool {
		same := l.Owner == msg.Owner && l.Work.Hook == msg.Work.Hook && slices.Equal(l.Work.Bindings, msg.Work.Bindings)
		if same {
			msg.Work.Late, msg.Work.Instead = msg.Work.Late || l.Work.Late, msg.Work.Instead || l.Work.Instead
		}
		return same
	}), msg)
	m.serve(ctx)
}

// serve answers the runs whose snapshots are complete (C36), or cannot become complete for now, and queues the deferred
// Synchronizations whose bindings are complete by now. If others wait, it starts the timer. The end of a first list
// notifies by itself, so what waits for nothing else needs no timer.
func (m *monitors) serve(ctx actor.Context) {
	m.runs = slices.DeleteFunc(m.runs, func(r snapshotRequest) bool {
		snapshots, complete := m.snapshots(r.msg)
		if complete {
			if snapshots.Waiting == "" {
				for mon := range m.watches.shownBy(r.msg.Owner, r.msg.Synchronization) {
					mon.runBegan(r.msg.Synchronization.Run)
				}
			}
			ctx.Send(r.from, snapshots)
		}
		return complete
	})
	m.later = slices.DeleteFunc(m.later, func(l messages.SynchronizeLater) bool {
		complete := m.watches.all(l.Owner, l.Hook.Name, (*monitor).complete)
		if complete {
			t := m.program.NewTask(l.Owner, l.Work, messages.Cause{Activation: messages.BySync, Detail: "deferred"})
			t.Queue = l.Queue
			m.program.Enqueue(ctx, false, t)
		}
		return complete
	})
	lost := func(l messages.SynchronizeLater) bool { return m.watches.filled(l.Owner, l.Hook.Name) }
	if !m.looking && (len(m.runs) > 0 || slices.ContainsFunc(m.later, lost)) {
		m.looking = true
		m.program.SendLater(ctx, lookEvery, lookAgain{})
	}
}

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
	m.giveUp(ctx, msg.watch, mon, mon.watch.State().Message)
}

// giveUp treats a binding that is too large like one that may not be read: its hook does not
// run, no other hook waits, and once it is complete again the hook gets a Synchronization of all
// its bindings, because it has missed events (P5).
func (m *monitors) giveUp(ctx actor.Context, key messages.WatchKey, mon *monitor, why string) {
	// An owner whose Synchronization has not shown the snapshot yet is notified by its refusal
	// (postpone); the others get another Synchronization.
	wasFilled := mon.isFilled()
	mon.watch.Stop()
	mon.overflow = why + "; narrow the binding with selectors, or keep less with jqFilter and keepFullObjectsInMemory: false"
	mon.watched = newWatched(mon.watch, mon.instance)
	mon.become(tooLarge)
	m.log.Error("a binding is too large: its hook does not run", "owner", key.Owner, "hook", mon.hook.Name,
		"binding", mon.binding.Name, "kind", mon.binding.Kind, "err", mon.overflow, "again", againAfter)
	text := fmt.Sprintf("hook %s does not run: its binding %s is too large: %s", mon.hook.Name, mon.binding.Name, mon.overflow)
	m.program.Notify(kube.Notice{Warning: true, Reason: "SnapshotTooLarge", Message: text})
	if wasFilled {
		for _, w := range synchronizations(mon.hook) {
			w.Late, w.Again, w.Instead = true, true, mon.hook.Config.Version != hooks.V0 // which knows no Synchronization
			m.synchronizeLater(ctx, messages.SynchronizeLater{
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
