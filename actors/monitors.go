package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

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
	program *program
	log     *slog.Logger
	ctx     context.Context // ends with the program

	watches map[messages.WatchKey]*monitor
	started uint64 // counts watches
	waiting []snapshotRequest
	later   []messages.SynchronizeLater
	awaited []awaited
	looking bool // a lookAgain is on its way
	writes  writes
	runs    map[hookKey]*hookWindow // of processes of hooks that run, or ended lately
	budget  *kube.Budget            // of all watches; nil for none
	standby bool                    // another replica acts: what changes is in the snapshots, that is enough
}

// monitor is one binding of one hook.
type monitor struct {
	hook    hooks.Hook
	binding hooks.KubernetesBinding
	watch   Watch
	// instance is the number of the watch: one that was stopped may have sent something just before.
	instance uint64
	synced   bool
	shown    bool           // it was synced once: its objects were shown
	warm     bool           // filled ahead by a follower; not requested yet
	runs     map[int64]bool // Synchronization runs that show it to the hook now
	open     bool           // events flow
	seen     uint64         // the last change that the Synchronization run saw, or that became an event
	// held is what came while a Synchronization runs, in order.
	held []messages.ObjectChanged
	// flooded: too many events came; dropped of them were held until then.
	flooded            bool
	heldBytes, dropped int
	tooLarge           string        // why the snapshot is not kept; empty when it is
	overflows          int           // how often it was too large
	slowed             []slowedEvent // those that are part of a loop, until they are due
	slowedBytes        int
	paces              map[objectID]pace  // of objects that are part of a loop
	echoes             map[objectID]*echo // of objects that the hook seems to write itself
	resync             *time.Timer        // nil without resynchronizationPeriod, or before the first Synchronization
}

// snapshotRequest waits until all bindings of its hook are complete.
type snapshotRequest struct {
	from *actor.PID
	msg  messages.GetSnapshots
}

// lookAgain is sent by a timer while runs wait for snapshots: whether a kind is missing
// or forbidden shows only in the state of its watch.
type lookAgain struct{}

const lookEvery = 500 * time.Millisecond

func newMonitors(ctx context.Context, p *program, standby bool) *monitors {
	m := &monitors{program: p, log: p.Log, ctx: ctx, watches: map[messages.WatchKey]*monitor{}, writes: newWrites(), runs: map[hookKey]*hookWindow{}, standby: standby}
	if limit := p.SnapshotLimit; limit > 0 {
		m.budget = kube.NewBudget(limit+limit/2, 2*limit+limit/2) // a list of the size of a limit is always let through
	}
	return m
}

// Receive implements actor.Actor.
func (m *monitors) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case messages.GetSnapshots:
		m.getSnapshots(ctx, msg)
	case messages.WatchSynced:
		m.watchSynced(ctx, msg)
	case watchOverflowed:
		m.overflowed(ctx, msg)
	case watchAgain:
		m.again(ctx, msg)
	case messages.ObjectChanged:
		m.objectChanged(ctx, msg)
	case messages.UnlockBinding:
		m.unlock(ctx, msg)
	case messages.SynchronizationEnded:
		m.synchronizationEnded(msg)
	case messages.ObjectsPatched:
		m.writes.begin(msg)
	case messages.ObjectsWritten:
		m.writes.end(msg)
	case messages.HookBegan:
		m.hookBegan(msg)
	case messages.HookEnded:
		m.hookEnded(msg)
	case messages.SynchronizeLater:
		m.synchronizeLater(ctx, msg)
	case messages.AwaitSnapshots:
		m.awaitSnapshots(ctx, msg)
	case messages.Unwatch:
		m.unwatch(ctx, msg)
	case messages.DumpSnapshots:
		m.dumpSnapshots(ctx, msg)
		return
	case warmUp:
		m.warmUp(ctx, msg)
	case lead:
		m.standby = false
	case dropWarm:
		m.dropWarm()
	case resyncDue:
		m.resync(ctx, msg)
	case slowedDue:
		m.slowedDue(ctx, msg)
	case resyncAll:
		m.resyncAll(ctx, msg.cause)
	case lookAgain:
		m.lookAgain(ctx)
	case *actor.Started:
	case *actor.Stopping:
		m.stopAll()
	default:
		unhandled(ctx, m.log)
	}
	m.publish(ctx)
}

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
	if reason := m.blocked(msg); reason != "" {
		ctx.Respond(m.refusal(msg, reason))
		return
	}
	m.waiting = append(m.waiting, snapshotRequest{ctx.Sender(), msg})
	m.answer(ctx)
}

// warmUp fills the watches of hooks that may be asked for soon.
func (m *monitors) warmUp(ctx actor.Context, msg warmUp) {
	if !m.standby {
		return // late: this replica leads, and its hooks ask themselves
	}
	for _, hook := range msg.hooks {
		for i, b := range hook.Config.Kubernetes {
			key := messages.WatchKey{Owner: msg.owner, Binding: work.BindingKey(hook, i)}
			if m.watches[key] != nil {
				continue
			}
			if err := m.startWatch(ctx, key, hook, b); err != nil {
				m.log.Warn("a watch could not be filled ahead", "hook", hook.Name, "binding", b.Name, "err", err)
				continue
			}
			m.watches[key].warm = true
		}
	}
}

// adopted reports whether a hook has this watch. One that was filled ahead is taken over,
// unless the hook was loaded again since and may ask for something else. The same goes for
// one that a cancelled run has asked for after the watches of its module were stopped.
func (m *monitors) adopted(key messages.WatchKey, hook hooks.Hook) bool {
	mon := m.watches[key]
	if mon == nil {
		return false
	}
	if mon.hook.Config != hook.Config {
		mon.stop()
		delete(m.watches, key)
		return false
	}
	mon.warm = false
	return true
}

// dropWarm stops watches that were filled ahead in vain.
func (m *monitors) dropWarm() {
	for key, mon := range m.watches {
		if mon.warm {
			mon.stop()
			delete(m.watches, key)
		}
	}
}

func (m *monitors) startWatch(ctx actor.Context, key messages.WatchKey, hook hooks.Hook, b hooks.KubernetesBinding) error {
	mon := &monitor{hook: hook, binding: b, runs: map[int64]bool{}, paces: map[objectID]pace{}, echoes: map[objectID]*echo{}}
	if err := m.fill(ctx, key, mon); err != nil {
		return err
	}
	m.watches[key] = mon
	return nil
}

// fill starts the watch of a monitor.
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
	spec.Limit, spec.Budget, spec.Name = m.program.SnapshotLimit, m.budget, fmt.Sprint(key)
	spec.Overflowed = func() { m.program.Send(self, watchOverflowed{key, instance}) }
	watch, err := m.program.Watch(m.ctx, spec, func(c kube.Change) {
		m.program.Send(self, messages.ObjectChanged{
			Watch: key, Instance: instance, Seq: c.Seq, Event: c.Type, Namespace: c.Object.Namespace, Name: c.Object.Name, Version: c.Version,
			Object: hooks.Object{Object: c.Object.Object, FilterResult: c.Object.FilterResult}, Arrived: time.Now(),
		})
	}, func() { m.program.Send(self, messages.WatchSynced{Watch: key, Instance: instance}) })
	if err != nil {
		return err
	}
	mon.watch, mon.instance = watch, instance
	return nil
}

func (m *monitors) watchSynced(ctx actor.Context, msg messages.WatchSynced) {
	if mon := m.watches[msg.Watch]; mon != nil && mon.instance == msg.Instance {
		mon.synced, mon.shown, mon.tooLarge = true, true, ""
		m.answer(ctx)
		m.queueLater(ctx)
	}
}

// lookAgain answers the runs whose snapshots cannot become complete for now.
func (m *monitors) lookAgain(ctx actor.Context) {
	m.looking = false
	m.waiting = slices.DeleteFunc(m.waiting, func(r snapshotRequest) bool {
		reason := m.blocked(r.msg)
		if reason != "" {
			ctx.Send(r.from, m.refusal(r.msg, reason))
		}
		return reason != ""
	})
	m.answer(ctx)
	m.queueLater(ctx)
}

func (m *monitors) refusal(msg messages.GetSnapshots, reason string) messages.Snapshots {
	return messages.Snapshots{Waiting: reason, Resync: !m.synced(msg.Owner, msg.Hook.Name)}
}

// lookLater looks at the watches again while they are waited for, except for what the end of a
// first list notifies.
func (m *monitors) lookLater(ctx actor.Context) {
	due := len(m.waiting) > 0 ||
		slices.ContainsFunc(m.later, func(l messages.SynchronizeLater) bool { return m.synced(l.Owner, l.Hook.Name) }) ||
		slices.ContainsFunc(m.awaited, func(a awaited) bool { return m.synced(a.Owner, a.Hook) })
	if !due || m.looking {
		return
	}
	m.looking = true
	self := ctx.Self()
	time.AfterFunc(lookEvery, func() { m.program.Send(self, lookAgain{}) })
}

// blocked says which binding of a hook waits for a kind or a permission: the first one, or one that
// was lost since.
func (m *monitors) blocked(msg messages.GetSnapshots) string {
	for i, b := range msg.Hook.Config.Kubernetes {
		mon := m.watches[messages.WatchKey{Owner: msg.Owner, Binding: work.BindingKey(msg.Hook, i)}]
		if mon == nil || mon.complete() {
			continue
		}
		if mon.tooLarge != "" {
			return fmt.Sprintf("binding %s: %s", b.Name, mon.tooLarge)
		}
		s := mon.watch.State()
		if s.Phase == kube.Forbidden {
			m.program.notify(kube.Notice{Warning: true, Reason: "SnapshotForbidden", Message: fmt.Sprintf("hook %s does not run, its binding %s may not be read: %s", msg.Hook.Name, b.Name, s.Message)})
			return fmt.Sprintf("binding %s: %s; grant the operator's service account this permission, 'addon-operator rbac generate' prints all that are needed", b.Name, s.Message)
		}
		if s.Phase == kube.WaitingForKind && !mon.synced { // once it was, it is empty: a kind that is gone has no objects
			return fmt.Sprintf("binding %s: %s", b.Name, s.Message)
		}
	}
	return ""
}

// answer gives snapshots to the runs whose hooks have all bindings complete (C36).
func (m *monitors) answer(ctx actor.Context) {
	m.waiting = slices.DeleteFunc(m.waiting, func(r snapshotRequest) bool {
		snapshots, complete := m.snapshots(r.msg)
		if complete {
			m.holdEvents(r.msg)
			ctx.Send(r.from, snapshots)
		}
		return complete
	})
	m.lookLater(ctx)
}

// holdEvents is called when a Synchronization run gets its snapshots: what changes from now
// on it does not see. Whatever changed before, the next one will see, too (C40).
func (m *monitors) holdEvents(msg messages.GetSnapshots) {
	for _, binding := range msg.Synchronization.Bindings {
		if mon := m.watches[messages.WatchKey{Owner: msg.Owner, Binding: binding}]; mon != nil {
			mon.runs[msg.Synchronization.Run] = true
		}
	}
}

// synchronizationEnded lets go of the events that were held for a run that has failed.
func (m *monitors) synchronizationEnded(msg messages.SynchronizationEnded) {
	m.waiting = slices.DeleteFunc(m.waiting, func(r snapshotRequest) bool { return r.msg.Synchronization.Run == msg.Run })
	for _, binding := range msg.Bindings {
		mon := m.watches[messages.WatchKey{Owner: msg.Owner, Binding: binding}]
		if mon == nil {
			continue
		}
		if delete(mon.runs, msg.Run); len(mon.runs) == 0 {
			mon.forgetHeld()
		}
	}
}

func (m *monitors) snapshots(msg messages.GetSnapshots) (out messages.Snapshots, complete bool) {
	for i, b := range msg.Hook.Config.Kubernetes {
		mon := m.watches[messages.WatchKey{Owner: msg.Owner, Binding: work.BindingKey(msg.Hook, i)}]
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
		s := messages.BindingSnapshot{Name: b.Name, Objects: make([]hooks.Object, len(objects)), Seq: seq}
		for k, o := range objects {
			s.Objects[k] = hooks.Object{Object: o.Object, FilterResult: o.FilterResult}
		}
		out.Bindings = append(out.Bindings, s)
	}
	return out, true
}

func (m *monitors) unwatch(ctx actor.Context, msg messages.Unwatch) {
	for key, mon := range m.watches {
		if key.Owner == msg.Owner {
			mon.stop()
			delete(m.watches, key)
		}
	}
	maps.DeleteFunc(m.runs, func(key hookKey, _ *hookWindow) bool { return key.owner == msg.Owner })
	m.later = slices.DeleteFunc(m.later, func(l messages.SynchronizeLater) bool { return l.Owner == msg.Owner })
	m.answer(ctx)     // runs that wait for these snapshots hear that they are gone
	m.queueLater(ctx) // and queues let go of what waits for them
}

func (m *monitors) stopAll() {
	for _, mon := range m.watches {
		mon.stop()
	}
}

func (mon *monitor) stop() {
	mon.watch.Stop()
	if mon.resync != nil {
		mon.resync.Stop()
	}
}
