package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// monitors owns the watches of all kubernetes bindings. It starts them when a hook asks
// for its snapshots for the first time, and turns events into tasks once the
// Synchronization of the binding has succeeded. Events of before a Synchronization run gets
// its snapshots are dropped, because the snapshots contain them; those that come while it
// runs are held until its end (C40).
//
// Filtering and comparing happened before, in package kube: what arrives here is a
// change that counts.
type monitors struct {
	program *program
	log     *slog.Logger
	ctx     context.Context // ends with the program

	watches map[messages.WatchKey]*monitor
	// Who waits until the snapshots of a hook are complete: runs, and Synchronizations that were deferred (C16).
	runs  []snapshotRequest
	later []messages.SynchronizeLater
}

// Receive implements actor.Actor.
func (m *monitors) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case messages.GetSnapshots:
		m.getSnapshots(ctx, msg)
	case watchSynced:
		m.watchSynced(ctx, msg.mon)
	case watchAgain:
		m.watchAgain(ctx, msg.mon)
	case objectChanged:
		m.objectChanged(ctx, msg)
	case messages.SynchronizationEnded:
		m.synchronizationEnded(ctx, msg)
	case messages.SynchronizeLater:
		m.synchronizeLater(ctx, msg)
	case messages.Unwatch:
		m.unwatch(ctx, msg)
	default:
		unhandled(ctx, m.log)
	}
	m.publish(ctx)
}

// getSnapshots starts the watches of a hook at its first question, or takes over those that are there, and answers
// when all are complete. All bindings of the hook are started, also for a run that shows one of them: its
// Synchronizations come after the lists of all (C36). A watch of a hook that was loaded again since, which may ask
// for something else, is replaced; so is one that a cancelled run has asked for after the watches of its module were
// stopped.
func (m *monitors) getSnapshots(ctx actor.Context, msg messages.GetSnapshots) {
	for i, b := range msg.Hook.Config.Kubernetes {
		key := messages.WatchKey{Owner: msg.Owner, Binding: bindingKey(msg.Hook, i)}
		if mon := m.watches[key]; mon != nil {
			if mon.hook.Config == msg.Hook.Config {
				continue
			}
			mon.watch.Stop()
			delete(m.watches, key)
		}
		mon, err := m.begin(ctx.Self(), key, msg.Hook, b)
		if err != nil {
			ctx.Respond(messages.Snapshots{Err: fmt.Errorf("binding %s: %w", b.Name, err)})
			return
		}
		m.watches[key] = mon
	}
	m.runs = append(m.runs, snapshotRequest{ctx.Sender(), msg})
	m.serve(ctx)
}

// begin starts the watch of a binding. Its functions are called from goroutines of package kube, so they only send.
func (m *monitors) begin(
	self *actor.PID, key messages.WatchKey, hook hooks.Hook, b hooks.KubernetesBinding,
) (*monitor, error) {
	log := m.log.With("hook", hook.Name, "binding", b.Name)
	mon := &monitor{
		life: life[monitorPhase]{"monitor", log, monitorPhases(), filling},
		key:  key, hook: hook, binding: b, runs: map[int64]bool{},
	}
	looked := func() { m.program.Send(self, watchSynced{mon}) }
	spec := kube.Spec{
		APIVersion: b.APIVersion, Kind: b.Kind, Names: b.Names, Namespaces: b.Namespaces,
		Labels: b.Labels, NamespaceLabels: b.NamespaceLabels, Fields: b.Fields, KeepObjects: b.KeepFullObjects,
		Limit: m.program.SnapshotLimit, Failed: func(error) { looked() },
	}
	if b.Filter != nil {
		spec.Filter = m.program.Metrics.filter(mon)
	}
	changed := func(c kube.Change) { m.program.Send(self, objectChanged{mon, c, time.Now()}) }
	var err error
	mon.watch, err = m.program.Watch(m.ctx, spec, changed, looked)
	return mon, err
}

// watchSynced is called when a watch is complete for the first time, and each time it is complete again: then runs
// that wait for a permission or a kind can go on. It is also called when a request fails, or there is no such kind:
// then runs that wait need wait no longer; and when the watch has become too large. That is treated like one that may
// not be read: its hook does not run, no other hook waits, and it is looked at again later. Once it is complete, a
// hook that has missed events gets a Synchronization of all its bindings (P5).
func (m *monitors) watchSynced(ctx actor.Context, mon *monitor) {
	switch {
	case m.watches[mon.key] != mon || mon.phase == tooLarge:
		return
	case mon.watch.State().Phase == kube.TooLarge:
		missed := mon.isFilled() // one that was not shown yet is deferred by its run
		mon.watch.Stop()
		mon.held = nil
		mon.become(tooLarge)
		mon.logs.Error("a binding is too large: its hook does not run; narrow the binding",
			"owner", mon.key.Owner, "kind", mon.binding.Kind, "err", mon.blocked(), "again", tooLargePause)
		m.program.SendLater(ctx, tooLargePause, watchAgain{mon})
		if missed {
			for _, w := range synchronizations(mon.hook) {
				w.Late, w.Again, w.Instead = true, true, mon.hook.Config.Version != hooks.V0 // which knows no Synchronization
				m.synchronizeLater(ctx, messages.SynchronizeLater{Owner: mon.key.Owner, Hook: mon.hook, Work: w})
			}
		}
	case mon.phase == filling && mon.watch.State().Whole():
		mon.become(filled)
	}
	m.serve(ctx)
}

// watchAgain begins the watch of a binding that was too large once more.
func (m *monitors) watchAgain(ctx actor.Context, mon *monitor) {
	if m.watches[mon.key] != mon {
		return // its module ended, or has started again
	}
	next, err := m.begin(ctx.Self(), mon.key, mon.hook, mon.binding)
	if err != nil {
		mon.logs.Error("bug: a watch that was right once cannot begin again", "err", err)
		return
	}
	m.watches[mon.key] = next
}

// unwatch ends all that belongs to the hooks of an owner (G6.4). Runs that wait for snapshots are
// answered with an error.
func (m *monitors) unwatch(ctx actor.Context, msg messages.Unwatch) {
	for key, mon := range m.watches {
		if key.Owner == msg.Owner {
			mon.watch.Stop()
			delete(m.watches, key)
		}
	}
	m.later = slices.DeleteFunc(m.later, func(l messages.SynchronizeLater) bool { return l.Owner == msg.Owner })
	m.serve(ctx)
}

// monitor is one binding of one hook: its watch, and which of its events become tasks.
type monitor struct {
	life[monitorPhase]
	key     messages.WatchKey
	hook    hooks.Hook
	binding hooks.KubernetesBinding
	watch   Watch

	runs map[int64]bool  // Synchronization runs that show it to the hook now
	seen uint64          // the change (Seq) that the Synchronization run saw last, or that became an event last
	held []objectChanged // what came while a Synchronization runs, in order
}

// labels are those of its metrics.
func (mon *monitor) labels() []string {
	b := mon.binding
	return []string{messages.ModuleOf(mon.key.Owner), mon.hook.Name, b.Name, b.Queue, b.Kind}
}

// complete reports whether the snapshot is complete at this moment. It may cease to be: a
// permission is lost, or another namespace begins to match (C17).
func (mon *monitor) complete() bool { return mon.isFilled() && mon.watch.State().Whole() }

// open ends the Synchronization. It returns the held events that the run did not see (C40).
func (mon *monitor) open(seen uint64) (events []objectChanged) {
	mon.seen = max(mon.seen, seen)
	for _, change := range mon.held {
		if change.Seq > mon.seen {
			events = append(events, change)
			mon.seen = change.Seq
		}
	}
	mon.held = nil
	clear(mon.runs)
	mon.become(open)
	return events
}

// snapshots are those of all bindings of a hook, in their order, taken at one moment (C35), if they
// are all complete. An error, and a binding that cannot become complete for now, are in the snapshots, and count as
// complete, because waiting would not help.
func (m *monitors) snapshots(msg messages.GetSnapshots) (out messages.Snapshots, complete bool) {
	all := make([]*monitor, len(msg.Hook.Config.Kubernetes))
	complete = true
	for i, b := range msg.Hook.Config.Kubernetes {
		mon := m.watches[messages.WatchKey{Owner: msg.Owner, Binding: bindingKey(msg.Hook, i)}]
		if mon == nil { // its module was disabled meanwhile, and the run is being cancelled
			return messages.Snapshots{Err: errors.New("the watches of this hook were stopped")}, true
		}
		all[i] = mon
		if mon.complete() {
			continue
		}
		complete = false
		if why := mon.blocked(); why != "" {
			return messages.Snapshots{Waiting: fmt.Sprintf("binding %s: %s", b.Name, why)}, true
		}
	}
	if !complete {
		return out, false
	}
	for _, mon := range all {
		objects, seq := mon.watch.Snapshot()
		if mon.watch.State().Phase == kube.TooLarge { // a message about that follows: it is empty, not complete
			return out, false
		}
		out.Bindings = append(out.Bindings, messages.BindingSnapshot{
			Name: mon.binding.Name, Objects: shownObjects(objects), Seq: seq,
		})
	}
	return out, true
}

// blocked says why a binding that is not complete cannot become so for now: its kind is
// missing, or the right to read it, or its snapshot is too large. Empty: a run should wait. A kind that is gone has no
// objects, so only one that was never there is missing. What to do about it pages say (view.BindingProblem).
func (mon *monitor) blocked() string {
	state := mon.watch.State()
	missing := state.Phase == kube.WaitingForKind && !mon.isFilled()
	if missing || state.Phase == kube.Forbidden || mon.phase == tooLarge {
		return state.Message
	}
	return ""
}

// shownObjects are objects in the form of package hooks, which does not know kube. The JSON is
// shared.
func shownObjects(objects []kube.Object) []hooks.Object {
	shown := make([]hooks.Object, len(objects))
	for i, o := range objects {
		shown[i] = hooks.Object{Object: o.Object, FilterResult: o.FilterResult}
	}
	return shown
}

// publish shows the bindings. It is called after every message, so it only collects pointers and small values;
// sorting and texts are left to those who look. Package kube lets any goroutine ask a watch for its state.
func (m *monitors) publish(ctx actor.Context) {
	all := make([]liveBinding, 0, len(m.watches))
	for key, mon := range m.watches {
		b := mon.binding
		all = append(all, liveBinding{mon.watch, messages.BindingState{
			Owner: key.Owner, Hook: key.Binding.Hook, Binding: b.Name, Queue: b.Queue, Kind: b.Kind, Held: len(mon.held),
		}})
	}
	m.program.Inspector.Publish(ctx.Self(), supervisor.Live(func() fmt.Stringer {
		s := view.MonitorsStatus{Snapshots: func(owner, hook string) []view.Snapshot {
			return snapshotsOf(all, owner, hook)
		}}
		for _, b := range all {
			s.Bindings = append(s.Bindings, b.state())
		}
		slices.SortFunc(s.Bindings, compareBindings)
		return s
	}))
}

// liveBinding is one binding at the time of the last message, with the watch that knows the rest of its state.
type liveBinding struct {
	watch Watch
	known messages.BindingState
}

func (b liveBinding) state() messages.BindingState {
	now, s := b.watch.State(), b.known
	s.Phase, s.Message, s.Objects, s.FilterErrors = string(now.Phase), now.Message, now.Objects, now.FilterErrors
	return s
}

// snapshotsOf are what view.MonitorsStatus says.
func snapshotsOf(bindings []liveBinding, owner, hook string) (all []view.Snapshot) {
	for _, b := range bindings {
		if b.known.Owner == owner && (hook == "" || b.known.Hook == hook) {
			objects, _ := b.watch.Snapshot()
			all = append(all, view.Snapshot{BindingState: b.state(), Objects: shownObjects(objects)})
		}
	}
	slices.SortFunc(all, func(a, b view.Snapshot) int { return compareBindings(a.BindingState, b.BindingState) })
	return all
}

// compareBindings orders bindings as pages list them; bindings of one name keep their order.
func compareBindings(a, b messages.BindingState) int {
	return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Hook, b.Hook), cmp.Compare(a.Binding, b.Binding))
}

// objectChanged is a change of an object that passed the filter of a binding. The monitor is that of the watch, which
// may have been stopped since.
type objectChanged struct {
	mon *monitor
	kube.Change
	arrived time.Time
}

// watchSynced notifies monitors that the list of a binding is complete, or that the watch has failed.
type watchSynced struct{ mon *monitor }

// tooLargePause is until a binding that is too large is looked at again.
const tooLargePause = 30 * time.Second

// watchAgain is sent by a timer after tooLargePause.
type watchAgain struct{ mon *monitor }

// objectChanged is step 1 of the way of a task (docs/architecture.md): a change becomes a task in
// the queue of the binding, is held while a Synchronization runs, or is dropped because the next
// Synchronization shows it.
func (m *monitors) objectChanged(ctx actor.Context, msg objectChanged) {
	mon := msg.mon
	switch {
	case m.watches[mon.key] == nil: // it was in the mailbox when the watch ended; nothing is lost
		binding := fmt.Sprintf("%s kubernetes[%d]", mon.hook.Name, mon.key.Binding.Index)
		m.program.Metrics.missing.WithLabelValues(binding).Inc()
	case m.watches[mon.key] != mon: // an event of an earlier watch; the list of the new one shows it
	case mon.phase == showing:
		m.hold(mon, msg)
	case mon.phase == open && msg.Seq > mon.seen:
		m.queueEvent(ctx, msg)
		m.program.Metrics.eventSeconds.WithLabelValues(mon.labels()...).Observe(seconds(msg.arrived))
		mon.seen = msg.Seq
	}
}

// hold keeps an event until the Synchronization has succeeded. If they are too many, a change without a type stands
// for all of them, as in a queue (P5): the hook is shown the objects as they are then. In protocol v0 the older half
// goes.
func (m *monitors) hold(mon *monitor, msg objectChanged) {
	mon.held = append(mon.held, msg)
	bytes := 0
	for _, held := range mon.held {
		bytes += len(held.Object.Object) + len(held.Object.FilterResult)
	}
	before := len(mon.held)
	if before <= maxTriggers && bytes <= maxWaiting {
		return
	}
	if mon.hook.Config.Version == hooks.V0 {
		mon.held = slices.Delete(mon.held, 0, (before+1)/2)
	} else {
		mon.held = []objectChanged{{mon: mon, Change: kube.Change{Seq: msg.Seq}}}
	}
	m.program.Runs.eventsLost(mon.key.Owner, mon.hook.Name, mon.binding.Queue, before-len(mon.held))
}

// queueEvent makes a task of an event, if the binding asks for this type: with the context in the protocol of its hook
// (C31, C32).
func (m *monitors) queueEvent(ctx actor.Context, msg objectChanged) {
	mon, b, o := msg.mon, msg.mon.binding, msg.Object
	if len(b.Events) == 0 || msg.Type != "" && !slices.Contains(b.Events, msg.Type) {
		return // it still counts as seen: the snapshot has changed
	}
	trigger := synchronizationTrigger(b, mon.key.Binding.Index)
	switch {
	case mon.hook.Config.Version == hooks.V0:
		kind := cmp.Or(mon.watch.State().Kind, b.Kind) // as the API server spells it, whatever the hook wrote (C22)
		resource := &hooks.Resource{Namespace: o.Namespace, Kind: kind, Name: o.Name}
		trigger.Context = hooks.Context{Binding: b.Name, WatchEvent: msg.Type, Resource: resource}
	case b.Group == "" && msg.Type != "":
		trigger.Context = hooks.Context{
			Binding: b.Name, Type: hooks.TypeEvent, WatchEvent: msg.Type, Object: o.Object, FilterResult: o.FilterResult,
		}
	}
	about := fmt.Sprintf("%s %s %s, binding %s", b.Kind, path.Join(o.Namespace, o.Name), cmp.Or(msg.Type, "changes"), b.Name)
	work := messages.RunHook{Hook: mon.hook.Name, Binding: hooks.OnKubernetes, Triggers: []messages.Trigger{trigger}}
	t := m.program.NewTask(mon.key.Owner, work, messages.Cause{Activation: messages.ByKubernetes, Detail: about})
	t.Queue, t.AllowFailure = b.Queue, b.AllowFailure
	m.program.Enqueue(ctx, false, t)
}

// synchronizationBegins is called when a Synchronization run gets its snapshots: what changes from now on it
// does not see, so it is held (C40). A repetition (C15) of an open binding, on top of the events, holds nothing.
func (m *monitors) synchronizationBegins(owner string, s messages.Synchronization) {
	for _, binding := range s.Bindings {
		mon := m.watches[messages.WatchKey{Owner: owner, Binding: binding}]
		if mon.phase == open {
			continue
		}
		mon.runs[s.Run] = true
		if mon.phase == filled {
			mon.become(showing)
		}
	}
}

// synchronizationEnded ends a Synchronization run. After a success each held event becomes a task, unless the run saw
// it (C40). After a failure the events are dropped: the next run gets newer snapshots, which contain them. Both not
// while another run shows the binding, or when the watch is another one than the run has shown: that counts its
// changes from the beginning.
func (m *monitors) synchronizationEnded(ctx actor.Context, msg messages.SynchronizationEnded) {
	m.runs = slices.DeleteFunc(m.runs, func(r snapshotRequest) bool { return r.msg.Synchronization.Run == msg.Run })
	for i, binding := range msg.Bindings {
		mon := m.watches[messages.WatchKey{Owner: msg.Owner, Binding: binding}]
		if mon == nil || !mon.runs[msg.Run] || mon.phase != showing {
			continue
		}
		delete(mon.runs, msg.Run)
		switch {
		case msg.Seen != nil:
			for _, change := range mon.open(msg.Seen[i]) {
				m.queueEvent(ctx, change)
			}
		case len(mon.runs) == 0:
			mon.held = nil
			mon.become(filled)
		}
	}
}

// snapshotRequest waits until all bindings of its hook are complete.
type snapshotRequest struct {
	from *actor.PID
	msg  messages.GetSnapshots
}

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

// serve answers the runs whose snapshots are complete (C36), or cannot become complete for now, and queues the
// deferred Synchronizations whose bindings are complete by now. Each watch notifies when it is complete, or fails.
func (m *monitors) serve(ctx actor.Context) {
	m.runs = slices.DeleteFunc(m.runs, func(r snapshotRequest) bool {
		snapshots, complete := m.snapshots(r.msg)
		if complete {
			if snapshots.Waiting == "" && snapshots.Err == nil {
				m.synchronizationBegins(r.msg.Owner, r.msg.Synchronization)
			}
			ctx.Send(r.from, snapshots)
		}
		return complete
	})
	m.later = slices.DeleteFunc(m.later, func(l messages.SynchronizeLater) bool {
		for key, mon := range m.watches {
			if key.Owner == l.Owner && key.Binding.Hook == l.Hook.Name && !mon.complete() {
				return false
			}
		}
		t := m.program.NewTask(l.Owner, l.Work, messages.Cause{Activation: messages.BySync, Detail: "deferred"})
		t.Queue = l.Hook.Config.Kubernetes[l.Work.Bindings[0]].Queue
		m.program.Enqueue(ctx, false, t)
		return true
	})
}
