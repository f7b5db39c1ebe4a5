package messages

import (
	"time"

	"addon-operator/hooks"
)

// BindingKey names a kubernetes binding of a hook by its place in the hook's
// configuration, because names may repeat.
type BindingKey struct {
	Hook  string
	Index int
}

// BindingSynchronized notifies an owner that the Synchronization of one binding has succeeded, or
// was not wanted. Late: it was deferred, so whatever ran without the hook is due again.
type BindingSynchronized struct {
	Binding BindingKey
	Late    bool
	Task    string // of the run that sends it
	// Config is that of the hook when its run began: another one may have taken its place.
	Config *hooks.Config
}

// BindingDeferred notifies an owner that it must not wait for a binding: its kind does not exist
// yet, or the operator may not list it. Only its own hook waits for it.
type BindingDeferred struct {
	Binding BindingKey
	Task    string        // of the run that sends it
	Config  *hooks.Config // as in [BindingSynchronized]
}

// SynchronizeLater asks monitors to queue a Synchronization as soon as all bindings of
// the hook are complete.
type SynchronizeLater struct {
	Owner string
	Queue string
	Hook  hooks.Hook
	Work  SynchronizeHook
}

// AwaitSnapshots asks monitors for a [SnapshotsComplete] as soon as all bindings of a hook
// are complete.
type AwaitSnapshots struct {
	Owner, Hook string
	// Queue is notified, or the owner when it is empty.
	Queue string
}

// SnapshotsComplete answers AwaitSnapshots. It may be outdated when it arrives; the run of the hook
// then finds that by GetSnapshots.
type SnapshotsComplete struct {
	Owner, Hook string
	// Resync: the Synchronizations of the hook are due again, and queued before this message; they
	// show what earlier events would show.
	Resync bool
}

// AwaitSynchronized asks an owner to queue the Synchronization runs that belong in
// named queues, unless they are queued or done, and to answer as
// soon as every binding that must be waited for is synchronized (F13, F14, X22).
type AwaitSynchronized struct {
	// Trace is the span that waits; the runs become parts of it (see Task.Trace).
	Trace string
}

// GetSnapshots asks for the objects of all kubernetes bindings of a hook. It starts their watches
// if they are not started yet. The answer is [Snapshots], when all of them are complete (C36), or
// cannot be for now.
type GetSnapshots struct {
	Owner string
	Hook  hooks.Hook
	// Synchronization is the run that asks; the zero value is any other.
	Synchronization Synchronization
}

// Synchronization names a run that shows bindings to a hook for the first time. It sees all
// that has changed until it gets its snapshots, so events are held from then on, until the
// binding is unlocked or no such run is left (C40).
type Synchronization struct {
	Run      int64 // no other has this number; 0 is none
	Bindings []BindingKey
}

// SynchronizationEnded notifies monitors that a run that has asked for snapshots is over, whether
// it succeeded or not.
type SynchronizationEnded struct {
	Owner string
	Synchronization
}

// Snapshots are the objects of a hook's kubernetes bindings, in their order.
type Snapshots struct {
	Bindings []BindingSnapshot
	// Waiting says which binding cannot be complete for now, and why; empty when all are complete.
	Waiting string
	// Resync: Synchronizations of the hook are due when it is complete, as after the start.
	Resync bool
	Err    error
}

// BindingSnapshot is one binding's part of [Snapshots].
type BindingSnapshot struct {
	Name    string
	Objects []hooks.Object
	// Seq is the last change that Objects contains. Each instance of a watch counts its own changes.
	Seq, Instance uint64
}

// UnlockBinding lets the events of a binding through after its Synchronization; those
// up to Seen were part of it (C40).
type UnlockBinding struct {
	Watch WatchKey
	// Instance is that of the watch whose snapshot the hook was shown, as in [ObjectChanged]. A
	// watch that was filled again meanwhile has to be shown first.
	Instance uint64
	Seen     uint64
}

// Unwatch stops the watches of an owner.
type Unwatch struct{ Owner string }

// WatchKey names the watch of one kubernetes binding.
type WatchKey struct {
	Owner   string
	Binding BindingKey
}

// ObjectChanged is a change of an object that passed the filter of a binding.
type ObjectChanged struct {
	Watch WatchKey
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

// ObjectName names an object; the kind is in lower case.
type ObjectName struct{ Kind, Namespace, Name string }

// ObjectsPatched reports to monitors which objects a hook, or Helm, is about to write, so that the
// events that follow know what caused them (K10).
type ObjectsPatched struct {
	Write   int64 // no other has this number
	Cause   Cause
	Objects []ObjectName
}

// ObjectsWritten notifies monitors that the writes of an ObjectsPatched are over. Events with these
// versions are their effect; no other events are, except the deletions of these objects.
type ObjectsWritten struct {
	Write    int64
	Versions []ObjectVersion
}

// ObjectVersion is an object as a write has left it.
type ObjectVersion struct {
	ObjectName
	Version string // resourceVersion
}

// HookBegan notifies monitors that the process of a hook is about to start. From now on an event
// may be the effect of what the hook writes by itself, with kubectl (K10).
type HookBegan struct {
	Owner, Hook string
	Run         int64 // no other has this number
	ByEvents    bool  // nothing but events of objects has led to this run
}

// HookEnded notifies monitors that the process of a hook has ended.
type HookEnded struct {
	Owner, Hook string
	Run         int64 // as in [HookBegan]
}

// WatchSynced notifies monitors that the first list of a binding is complete, or that it is
// complete again.
type WatchSynced struct {
	Watch    WatchKey
	Instance uint64 // as in [ObjectChanged]
}

// StartSchedules makes the schedules of hooks tick.
type StartSchedules struct {
	Owner string
	Hooks []hooks.Hook
}

// StopSchedules ends the schedules of an owner.
type StopSchedules struct{ Owner string }

// ScheduleFired is one tick of a crontab.
type ScheduleFired struct{ Crontab string }
