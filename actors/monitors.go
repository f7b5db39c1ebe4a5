package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
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
	waiters snapshotWaiters
}

// New makes the actor.
func newMonitors(ctx context.Context, p *program) actor.Actor {
	m := &monitors{program: p, log: p.Log, ctx: ctx, watches: watches{}}
	m.waiters = snapshotWaiters{program: p, watches: m.watches}
	return m
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
		m.waiters.cancel(msg.Run)
		for _, shown := range msg.Shown {
			m.synchronized(ctx, shown)
		}
		for mon := range m.watches.shownBy(msg.Owner, msg.Synchronization) {
			mon.runEnded(msg.Run)
		}
	case messages.SynchronizeLater:
		m.waiters.synchronize(ctx, msg)
	case messages.Unwatch:
		m.unwatch(ctx, msg)
	case lookAgain:
		m.waiters.lookAgain(ctx)
	case *actor.Started:
	case *actor.Stopping:
		m.watches.stop(func(messages.WatchKey, *monitor) bool { return true })
	default:
		unhandled(ctx, m.log)
	}
	m.publish(ctx)
}

// getSnapshots starts the watches of a hook at its first question, or takes over those that are
// there, and answers when all are complete. All bindings of the hook are started, also for a run
// that shows one of them: its Synchronizations come after the lists of all (C36).
func (m *monitors) getSnapshots(ctx actor.Context, msg messages.GetSnapshots) {
	for i, b := range msg.Hook.Config.Kubernetes {
		key := messages.WatchKey{Owner: msg.Owner, Binding: bindingKey(msg.Hook, i)}
		if m.adopted(key, msg.Hook) {
			continue
		}
		if err := m.startWatch(ctx, key, msg.Hook, b); err != nil {
			ctx.Respond(messages.Snapshots{Err: fmt.Errorf("binding %s: %w", b.Name, err)})
			return
		}
	}
	m.waiters.ask(ctx, msg)
}

// adopted reports whether a hook has this watch already. One of a hook that was loaded again since, which may ask for
// something else, is stopped; so is one that a cancelled run has asked for after the watches of its module were
// stopped.
func (m *monitors) adopted(key messages.WatchKey, hook hooks.Hook) bool {
	mon := m.watches[key]
	if mon == nil {
		return false
	}
	if mon.hook.Config != hook.Config {
		mon.watch.Stop()
		delete(m.watches, key)
		return false
	}
	return true
}

// startWatch begins a watch that this key does not have.
func (m *monitors) startWatch(ctx actor.Context, key messages.WatchKey, hook hooks.Hook, b hooks.KubernetesBinding) error {
	mon := newMonitor(m.log, hook, b)
	if err := m.fill(ctx, key, mon); err != nil {
		return err
	}
	m.watches[key] = mon
	return nil
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
		spec.Filter = m.program.Metrics.Filter(key, b)
	}
	m.started++
	instance := m.started
	spec.Limit = m.program.SnapshotLimit
	spec.Overflowed = func() { m.program.Send(self, watchOverflowed{key, instance}) }
	watch, err := m.program.Watch(m.ctx, spec, func(c kube.Change) {
		m.program.Send(self, objectChanged{
			Watch: key, Instance: instance, Seq: c.Seq, Event: c.Type, Namespace: c.Object.Namespace, Name: c.Object.Name, Version: c.Version,
			Object: hooks.Object{Object: c.Object.Object, FilterResult: c.Object.FilterResult}, Arrived: time.Now(),
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
	m.waiters.serve(ctx)
}

// unwatch ends all that belongs to the hooks of an owner (G6.4). Runs that wait for snapshots are
// answered with an error.
func (m *monitors) unwatch(ctx actor.Context, msg messages.Unwatch) {
	m.watches.stop(func(key messages.WatchKey, _ *monitor) bool { return key.Owner == msg.Owner })
	m.waiters.unwatched(ctx, msg.Owner)
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

func newMonitor(log *slog.Logger, hook hooks.Hook, b hooks.KubernetesBinding) *monitor {
	return &monitor{
		monitorLife: monitorLife{log: log.With("hook", hook.Name, "binding", b.Name), phase: filling},
		hook:        hook, binding: b,
	}
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

// giveUp stops a watch that is too large, with all that it has held. When it is filled
// again it begins like a new one.
func (mon *monitor) giveUp(why string) {
	mon.watch.Stop()
	mon.overflow = why
	mon.watched = newWatched(mon.watch, mon.instance)
	mon.become(tooLarge)
}

// watches are the monitors of all bindings. Only the actor monitors uses them; the snapshots behind
// them are filled by package kube, at any moment.
type watches map[messages.WatchKey]*monitor

// of are the monitors of one hook.
func (w watches) of(owner, hook string) iter.Seq[*monitor] {
	return func(yield func(*monitor) bool) {
		for key, mon := range w {
			if key.Owner == owner && key.Binding.Hook == hook && !yield(mon) {
				return
			}
		}
	}
}

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

// complete reports whether all snapshots of a hook are complete now, or it has none.
func (w watches) complete(owner, hook string) bool {
	for mon := range w.of(owner, hook) {
		if !mon.complete() {
			return false
		}
	}
	return true
}

// filled reports whether all snapshots of a hook were complete once, and are not too large. It may
// hold while complete does not: for example when a permission is lost, which is not waited for
// (C17).
func (w watches) filled(owner, hook string) bool {
	for mon := range w.of(owner, hook) {
		if !mon.isFilled() {
			return false
		}
	}
	return true
}

// snapshots are those of all bindings of a hook, in their order, taken at one moment (C35), if they
// are all complete. An error is in the snapshots, and counts as complete, because waiting would not
// help.
func (w watches) snapshots(msg messages.GetSnapshots) (out messages.Snapshots, complete bool) {
	for i, b := range msg.Hook.Config.Kubernetes {
		mon := w[messages.WatchKey{Owner: msg.Owner, Binding: bindingKey(msg.Hook, i)}]
		switch {
		case mon == nil: // its module was disabled meanwhile, and the run is being cancelled
			return messages.Snapshots{Err: errors.New("the watches of this hook were stopped")}, true
		case !mon.complete():
			return out, false
		}
		objects, seq := mon.watch.Snapshot()
		if mon.watch.State().Phase == kube.TooLarge { // a message about that follows: it is empty, not complete
			return out, false
		}
		out.Bindings = append(out.Bindings, messages.BindingSnapshot{Name: b.Name, Objects: shownObjects(objects), Seq: seq, Instance: mon.instance})
	}
	return out, true
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

// stop stops and forgets the watches that which selects.
func (w watches) stop(which func(messages.WatchKey, *monitor) bool) {
	for key, mon := range w {
		if which(key, mon) {
			mon.watch.Stop()
			delete(w, key)
		}
	}
}

// publish shows the bindings. It is called after every message, so it only collects pointers and
// small values; sorting and texts are left to those who look.
func (m *monitors) publish(ctx actor.Context) {
	all, waiting := make(liveBindings, 0, len(m.watches)), len(m.waiters.runs)
	for key, mon := range m.watches {
		all = append(all, mon.live(key))
	}
	m.program.Inspector.PublishLive(ctx.Self(), func() fmt.Stringer {
		s := view.MonitorsStatus{Waiting: waiting, Snapshots: all.snapshots}
		for _, b := range all {
			s.Bindings = append(s.Bindings, b.state())
		}
		slices.SortFunc(s.Bindings, compareBindings)
		return s
	})
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

func (mon *monitor) live(key messages.WatchKey) liveBinding {
	return liveBinding{key, mon.binding, mon.watch, len(mon.held), mon.overflow}
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
