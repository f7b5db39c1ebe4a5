package monitors

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
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
	program *shared.Program
	log     *slog.Logger
	ctx     context.Context // ends with the program

	watches watches
	started uint64 // counts watches; the number identifies each
	waiters snapshotWaiters
}

// New makes the actor.
func New(ctx context.Context, p *shared.Program) actor.Actor {
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
		shared.Unhandled(ctx, m.log)
	}
	m.publish(ctx)
}

// getSnapshots starts the watches of a hook at its first question, or takes over those that are
// there, and answers when all are complete. All bindings of the hook are started, also for a run
// that shows one of them: its Synchronizations come after the lists of all (C36).
func (m *monitors) getSnapshots(ctx actor.Context, msg messages.GetSnapshots) {
	for i, b := range msg.Hook.Config.Kubernetes {
		key := messages.WatchKey{Owner: msg.Owner, Binding: work.BindingKey(msg.Hook, i)}
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
		spec.Filter = m.program.Metrics.Bindings.Filter(key, b)
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
