package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
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

	watches watches
	started uint64 // counts watches; the number identifies each
	// Who waits until the snapshots of a hook are complete: runs, and Synchronizations that were deferred (C16).
	runs    []snapshotRequest
	later   []messages.SynchronizeLater
	looking bool // a lookAgain is on its way
}

// Receive implements actor.Actor.
func (m *monitors) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case messages.GetSnapshots:
		m.getSnapshots(ctx, msg)
	case watchSynced:
		m.watchSynced(ctx, msg)
	case watchOverflowed:
		m.overflowed(ctx, msg)
	case watchAgain:
		m.again(ctx, msg)
	case objectChanged:
		m.objectChanged(ctx, msg)
	case messages.SynchronizationEnded:
		m.runs = slices.DeleteFunc(m.runs, func(r snapshotRequest) bool { return r.msg.Synchronization.Run == msg.Run })
		for _, shown := range msg.Shown {
			m.synchronized(ctx, shown)
		}
		for mon := range m.watches.shownBy(msg.Owner, msg.Synchronization) {
			mon.runEnded(msg.Run)
		}
	case messages.SynchronizeLater:
		m.synchronizeLater(ctx, msg)
	case messages.Unwatch:
		m.unwatch(ctx, msg)
	case lookAgain:
		m.looking = false
		m.serve(ctx)
	case *actor.Started:
	case *actor.Stopping:
		for _, mon := range m.watches {
			mon.watch.Stop()
		}
	default:
		unhandled(ctx, m.log)
	}
	m.publish(ctx)
}

// getSnapshots starts the watches of a hook at its first question, or takes over those that are
// there, and answers when all are complete. All bindings of the hook are started, also for a run
// that shows one of them: its Synchronizations come after the lists of all (C36). A watch of a hook that was loaded again
// since, which may ask for something else, is replaced; so is one that a cancelled run has asked for after the watches of
// its module were stopped.
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
		log := m.log.With("hook", msg.Hook.Name, "binding", b.Name)
		mon := &monitor{monitorLife: monitorLife{log: log, phase: filling}, hook: msg.Hook, binding: b}
		if err := m.fill(ctx, key, mon); err != nil {
			ctx.Respond(messages.Snapshots{Err: fmt.Errorf("binding %s: %w", b.Name, err)})
			return
		}
		m.watches[key] = mon
	}
	m.runs = append(m.runs, snapshotRequest{ctx.Sender(), msg})
	m.serve(ctx)
}

// fill starts the watch of a monitor. Its functions are called from goroutines of package kube, so
// they only send. By the instance, messages of this watch can be distinguished from those of one
// that was stopped.
func (m *monitors) fill(ctx actor.Context, key messages.WatchKey, mon *monitor) error {
	self, b := ctx.Self(), mon.binding
	spec := kube.Spec{
		APIVersion: b.APIVersion, Kind: b.Kind, Names: b.Names, Namespaces: b.Namespaces,
		Labels: b.Labels, NamespaceLabels: b.NamespaceLabels, Fields: b.Fields, KeepObjects: b.KeepFullObjects,
	}
	if b.Filter != nil {
		spec.Filter = b.Filter.Apply
	}
	m.started++
	instance := m.started
	spec.Limit = m.program.SnapshotLimit
	spec.Overflowed = func() { m.program.Send(self, watchOverflowed{key, instance}) }
	watch, err := m.program.Watch(m.ctx, spec, func(c kube.Change) {
		m.program.Send(self, objectChanged{
			Watch: key, Instance: instance, Seq: c.Seq, Event: c.Type, Namespace: c.Object.Namespace, Name: c.Object.Name,
			Object: hooks.Object{Object: c.Object.Object, FilterResult: c.Object.FilterResult},
		})
	}, func() { m.program.Send(self, watchSynced{Watch: key, Instance: instance}) })
	if err != nil {
		return err
	}
	mon.watched = newWatched(watch, instance)
	return nil
}

// watchSynced is called when a watch is complete for the first time, and each time it is complete
// again: then runs that wait for a permission or a kind can go on.
func (m *monitors) watchSynced(ctx actor.Context, msg watchSynced) {
	mon := m.watches[msg.Watch]
	if mon == nil || mon.instance != msg.Instance || mon.phase == tooLarge {
		return
	}
	if !mon.isFilled() {
		mon.overflow = ""
		mon.become(filled)
	}
	m.serve(ctx)
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
	monitorLife
	watched
	hook     hooks.Hook
	binding  hooks.KubernetesBinding
	overflow string // why the snapshot is not kept; stays while the watch is filled again
}

// watched is one instance of the watch, with all that counts its changes or keeps them. It is
// replaced as a whole: a change that another instance has counted is compared with nothing of this
// one, or new events would count as seen, and old ones as new.
type watched struct {
	watch    Watch
	instance uint64 // its number: messages of a stopped one may still arrive

	runs map[int64]bool  // Synchronization runs that show it to the hook now
	seen uint64          // the change (Seq) that the Synchronization run saw last, or that became an event last
	held []objectChanged // what came while a Synchronization runs, in order
}

func newWatched(watch Watch, instance uint64) watched {
	return watched{watch: watch, instance: instance, runs: map[int64]bool{}}
}

// complete reports whether the snapshot is complete at this moment. It may cease to be: a
// permission is lost, or another namespace begins to match (C17).
func (mon *monitor) complete() bool { return mon.isFilled() && mon.watch.State().Whole() }

// runBegan is called when a Synchronization run gets its snapshots: what changes from now on it
// does not see, so it is held (C40). A repetition (C15) of an open binding holds nothing.
func (mon *monitor) runBegan(run int64) {
	if mon.phase == open {
		return // one on top of the events, which go on
	}
	mon.runs[run] = true
	if mon.phase == filled {
		mon.become(showing)
	}
}

// runEnded drops the events that were held for a run that has failed: the next run gets newer
// snapshots, which contain them.
func (mon *monitor) runEnded(run int64) {
	delete(mon.runs, run)
	if mon.phase == showing && len(mon.runs) == 0 {
		mon.held = nil
		mon.become(filled)
	}
}

// hold keeps an event until the Synchronization has succeeded, and reports whether that is one too many.
func (mon *monitor) hold(msg objectChanged) (tooMany bool) {
	mon.held = append(mon.held, msg)
	bytes := 0
	for _, held := range mon.held {
		bytes += len(held.Object.Object) + len(held.Object.FilterResult)
	}
	return len(mon.held) > maxTriggers || bytes > maxWaiting
}

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

// watches are the monitors of all bindings. Only the actor monitors uses them; the snapshots behind
// them are filled by package kube, at any moment.
type watches map[messages.WatchKey]*monitor

// shownBy are those that a Synchronization run shows. Watches that were stopped meanwhile are left
// out.
func (w watches) shownBy(owner string, s messages.Synchronization) iter.Seq[*monitor] {
	return func(yield func(*monitor) bool) {
		for _, binding := range s.Bindings {
			if mon := w[messages.WatchKey{Owner: owner, Binding: binding}]; mon != nil && !yield(mon) {
				return
			}
		}
	}
}

// all reports whether all bindings of a hook are such, or it has none.
func (w watches) all(owner, hook string, such func(*monitor) bool) bool {
	for key, mon := range w {
		if key.Owner == owner && key.Binding.Hook == hook && !such(mon) {
			return false
		}
	}
	return true
}

// filled reports whether all snapshots of a hook were complete once, and are not too large. It may
// hold while they are not complete: for example when a permission is lost, which is not waited for
// (C17).
func (w watches) filled(owner, hook string) bool {
	return w.all(owner, hook, func(mon *monitor) bool { return mon.isFilled() })
}

// snapshots are those of all bindings of a hook, in their order, taken at one moment (C35), if they
// are all complete. An error, and a binding that cannot become complete for now, are in the snapshots, and count as
// complete, because waiting would not help.
func (m *monitors) snapshots(msg messages.GetSnapshots) (out messages.Snapshots, complete bool) {
	complete = true
	for i, b := range msg.Hook.Config.Kubernetes {
		mon := m.watches[messages.WatchKey{Owner: msg.Owner, Binding: bindingKey(msg.Hook, i)}]
		if mon == nil { // its module was disabled meanwhile, and the run is being cancelled
			return messages.Snapshots{Err: errors.New("the watches of this hook were stopped")}, true
		}
		if mon.complete() {
			continue
		}
		complete = false
		if why := mon.blocked(); why != "" {
			if mon.watch.State().Phase == kube.Forbidden {
				m.program.Notify(kube.Notice{Warning: true, Reason: "SnapshotForbidden", Message: fmt.Sprintf("hook %s does not run: the operator may not read the objects of binding %s: %s", msg.Hook.Name, b.Name, why)})
			}
			return messages.Snapshots{Waiting: fmt.Sprintf("binding %s: %s", b.Name, why)}, true
		}
	}
	if !complete {
		return out, false
	}
	for i, b := range msg.Hook.Config.Kubernetes {
		mon := m.watches[messages.WatchKey{Owner: msg.Owner, Binding: bindingKey(msg.Hook, i)}]
		objects, seq := mon.watch.Snapshot()
		if mon.watch.State().Phase == kube.TooLarge { // a message about that follows: it is empty, not complete
			return out, false
		}
		out.Bindings = append(out.Bindings, messages.BindingSnapshot{Name: b.Name, Objects: shownObjects(objects), Seq: seq, Instance: mon.instance})
	}
	return out, true
}

// blocked says why a binding that is not complete cannot become so for now: its kind is
// missing, or the right to read it, or its snapshot is too large. Empty: a run should wait.
func (mon *monitor) blocked() string {
	state := mon.watch.State()
	switch {
	case mon.overflow != "":
		return mon.overflow
	case state.Phase == kube.Forbidden:
		return state.Message + "; grant the operator's service account this permission, 'addon-operator rbac generate' prints all permissions that it needs"
	case state.Phase == kube.WaitingForKind && !mon.isFilled(): // once it was, it is empty: a kind that is gone has no objects
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

// publish shows the bindings. It is called after every message, so it only collects pointers and
// small values; sorting and texts are left to those who look.
func (m *monitors) publish(ctx actor.Context) {
	all, waiting := make(liveBindings, 0, len(m.watches)), len(m.runs)
	for key, mon := range m.watches {
		all = append(all, liveBinding{key, mon.binding, mon.watch, len(mon.held), mon.overflow})
	}
	m.program.Inspector.Publish(ctx.Self(), supervisor.Live(func() fmt.Stringer {
		s := view.MonitorsStatus{Waiting: waiting, Snapshots: all.snapshots}
		for _, b := range all {
			s.Bindings = append(s.Bindings, b.state())
		}
		slices.SortFunc(s.Bindings, compareBindings)
		return s
	}))
}

// liveBindings are those of all hooks.
type liveBindings []liveBinding

// liveBinding is one binding at the time of the last message. Only watch may be used later: package
// kube lets any goroutine ask it for its state.
type liveBinding struct {
	key     messages.WatchKey
	binding hooks.KubernetesBinding
	watch   Watch
	held    int
	// tooLarge stays while the watch is filled again, which is no news.
	tooLarge string
}

// snapshots are what view.MonitorsStatus says.
func (l liveBindings) snapshots(owner, hook string) (all []view.Snapshot) {
	for _, b := range l {
		if b.key.Owner == owner && (hook == "" || b.key.Binding.Hook == hook) {
			objects, _ := b.watch.Snapshot()
			all = append(all, view.Snapshot{BindingState: b.state(), Objects: shownObjects(objects)})
		}
	}
	slices.SortFunc(all, func(a, b view.Snapshot) int { return compareBindings(a.BindingState, b.BindingState) })
	return all
}

func (b liveBinding) state() messages.BindingState {
	s := b.watch.State()
	if b.tooLarge != "" {
		s.Phase, s.Message = kube.TooLarge, b.tooLarge
	}
	return messages.BindingState{
		Owner: b.key.Owner, Hook: b.key.Binding.Hook, Binding: b.binding.Name, Queue: b.binding.Queue, Kind: b.binding.Kind,
		Phase: string(s.Phase), Message: s.Message, Objects: s.Objects, Held: b.held, FilterErrors: s.FilterErrors,
	}
}

// compareBindings orders bindings as pages list them; bindings of one name keep their order.
func compareBindings(a, b messages.BindingState) int {
	return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Hook, b.Hook), cmp.Compare(a.Binding, b.Binding))
}

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
	case mon == nil, msg.Instance != mon.instance: // an event of an earlier watch; the list of the new one shows it
	case mon.phase == showing:
		if mon.hold(msg) {
			m.giveUp(ctx, msg.Watch, mon, "too many events came while its Synchronization was in progress")
		}
	case mon.phase == open && msg.Seq > mon.seen:
		m.queueEvent(ctx, mon, msg)
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
