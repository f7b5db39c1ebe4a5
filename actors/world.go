package actors

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/semaphore"

	"addon-operator/actors/plan"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// World is all that the actors can touch outside their mailboxes. Package cmd/operator and testkit
// fill it; nothing in it is changed afterwards.
type World struct {
	work.Services
	ConfigMap ConfigMap
	// Secret is the Secret with values, the layer above the ConfigMap (D40); nil for none.
	Secret Secret
	// Secrets are the texts that are never shown; nil for a set of its own.
	Secrets *Secrets
	// ModuleObjects may be nil: then no objects show how modules are doing (J14).
	ModuleObjects ModuleObjects
	// LastValid may be nil: then an invalid ConfigMap ends the start (D16).
	LastValid LastValid
	// ReleaseWatch may be nil: then releases are not healed.
	ReleaseWatch ReleaseWatch
	// HealDelay is how long the healer gathers absent objects before it queues one run for them; 0
	// is one second. Who sets it (testkit, which runs on virtual time) reports every change at
	// once, so that nothing arrives late.
	HealDelay time.Duration
	// ProgressDeadline is how long an object of a release may be in progress before that counts as
	// a problem (H25); 0 is 10 minutes.
	ProgressDeadline time.Duration
	// Notices may be nil: then there are no Events.
	Notices Notices
	// Renderer may be nil: then charts cannot be rendered on request.
	Renderer plan.Renderer
	// Drift is what happens to objects that others changed: messages.DriftReport,
	// messages.DriftCorrect, or empty for no check. DriftPeriod is the time between two checks of a
	// module.
	Drift       string
	DriftPeriod time.Duration
	// Watch begins to watch objects. It returns at once; notify and synced are called from
	// one goroutine in order (kube.Watcher.Watch).
	Watch func(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (Watch, error)
	// WentBack begins to report watches that saw the API server go back to an earlier state
	// (kube.Client.WentBack). It may be nil: then this is not noticed.
	WentBack func(ctx context.Context, notify func(watch string))
	// AllowPurge lets every purge through without a person. PurgeShare is how many percent of the
	// releases one reload may purge before the purge is held (P1, decide.DefaultPurgeShare).
	AllowPurge bool
	PurgeShare int
	// Namespace and ConfigMapName are where the ConfigMap is, for commands in messages.
	Namespace, ConfigMapName string
	// Isolate parks a module whose run fails: it is retried outside of the queue main, and the
	// other modules continue. Without it the failing run stays the head of main (seed 001).
	Isolate bool
	// Disk begins to watch the directories of modules and global hooks, and calls notify when
	// something there may have changed. If it is nil, a reload alone compares them (P8).
	Disk func(ctx context.Context, notify func())
	// Leadership returns who leads among several replicas; nil when this one is alone.
	Leadership func() view.Leadership
	// WarmUp lets a follower read the kinds of the API server ahead, so that its first Apply as
	// leader need not; nil for nothing.
	WarmUp func(ctx context.Context) error
	// Dispatcher runs the mailboxes; nil for goroutines.
	Dispatcher actor.Dispatcher
	// Crashed ends the process after the crash of an actor, which was logged; nil for a panic.
	Crashed func()
	// Observe is called with each message before its actor handles it, and returns what to call
	// afterwards. asked says that a run waits for the answer. Optional.
	Observe func(actor *actor.PID, message any, asked bool) (handled func())
	// SnapshotLimit is how many bytes the snapshot of one binding may take; those of all bindings
	// together may take one and a half times as much. 0 means no limit.
	SnapshotLimit int
	// Backoff makes the delays between the attempts at a task; nil for those of rule F7.
	Backoff func() backoff.BackOff
}

// ReleaseWatch reports what others do to releases and their objects (H13). Package helm
// implements it.
type ReleaseWatch interface {
	// Watch returns at once; it is called once, before the first Apply. The returned function makes
	// it report the health of objects that were just written again, although their watches may have
	// shown nothing new.
	Watch(ctx context.Context, news helm.News) (assess func(written []helm.Object))
	// Present and WatchedKinds look into memory.
	Present(o helm.Object) bool
	WatchedKinds() []kube.WatchedKind
}

// ConfigMap is the ConfigMap that holds the values of users (D10).
type ConfigMap interface {
	Read(ctx context.Context) (kube.ConfigMap, error)
	Watch(ctx context.Context, notify func(kube.ConfigMap))
	// Write sets keys; nil removes one. base holds the texts that the caller has seen: if another
	// client has changed one of these keys since, nothing is written and the error is
	// kube.ErrConflict.
	Write(ctx context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error)
	// RemoveConfirmation removes the annotation that confirms a purge, when it has this value.
	RemoveConfirmation(ctx context.Context, value string) (kube.ConfigMap, error)
	// NoteWritten sets the annotation that keeps over a restart which values hooks wrote.
	NoteWritten(ctx context.Context, text string) (kube.ConfigMap, error)
}

// LastValid keeps the last valid contents of the ConfigMap and of the Secret with values, for a
// start with one that is not valid (P3).
type LastValid interface {
	// Read returns nil when nothing was kept yet, and [kube.ErrNotLastValid] for what is not
	// the operator's.
	Read(ctx context.Context) (*kube.LastValid, error)
	// Write writes only what differs from what is kept.
	Write(ctx context.Context, v kube.LastValid) error
	// String names the place.
	String() string
}

// Watch is a running watch with its snapshot. Package kube implements it.
type Watch interface {
	Snapshot() (objects []kube.Object, seq uint64)
	State() kube.WatchState
	Stop()
}

// program is what all actors share. After the start only its atomic fields change, each by the one
// actor that is named next to it, so that every goroutine may read it.
type program struct {
	*supervisor.System
	World
	runs  *work.Shared
	loads *semaphore.Weighted // of modules that load their hooks at the same time

	// global are the global values, which global-hooks alone replaces; enabled are the modules that
	// the last discovery has enabled, by converge alone. Modules hand both over to their runs.
	global  atomic.Pointer[values.Section]
	enabled atomic.Pointer[[]string]
	// tree is what is in force of the files on disk; converge alone replaces it.
	tree atomic.Pointer[addons.Tree]
	// mainWaits: a task of main waits for a Helm hook, and others go past it.
	mainWaits atomic.Bool

	// told, loops, changed and ran synchronise themselves: several actors, runs and pages use them.
	told    told // of loops
	loops   circles
	changed changedModules
	ran     ranSections // what schemas of charts are compared with
	// secretOff: the Secret with values is not read or written.
	secretOff atomic.Bool
}

func newProgram(system *supervisor.System, w World) *program {
	if w.Secrets == nil {
		w.Secrets = &Secrets{}
	}
	p := &program{System: system, World: w, loads: semaphore.NewWeighted(int64(max(1, w.Width)))}
	p.runs = work.NewShared(w.Services, p.notify)
	return p
}

// paths of the actors
const (
	operatorPath = work.Root
	modulePath   = work.ModulePath
	queuePath    = work.QueuePath
	globalPath   = work.GlobalPath
	convergePath = work.ConvergePath
	monitorsPath = work.MonitorsPath
	healerPath   = work.HealerPath
	configPath   = work.ConfigPath
	schedulePath = operatorPath + "/schedule"
	standbyPath  = operatorPath + "/standby"
)

// owner is the address of an owner of tasks.
func (p *program) owner(name string) *actor.PID { return p.PID(work.OwnerPath(name)) }

// task makes a task for the main queue.
func (p *program) task(owner string, work messages.Work, cause messages.Cause) messages.Task {
	return p.runs.Tasks.New(owner, work, cause)
}

// enqueue sends tasks to their queues. main always exists and is addressed directly. Other queues
// come and go, so their tasks take the way through the root, which spawns a queue when it must. All
// tasks of one sender for one queue take the same way, so their order is kept.
func (p *program) enqueue(ctx actor.Context, head bool, tasks ...messages.Task) {
	for len(tasks) > 0 {
		queue, n := tasks[0].Queue, 1
		for n < len(tasks) && tasks[n].Queue == queue {
			n++
		}
		to := p.PID(operatorPath)
		if queue == messages.MainQueue {
			to = p.PID(queuePath + queue)
		}
		ctx.Send(to, messages.Enqueue{Queue: queue, Tasks: tasks[:n:n], Head: head})
		tasks = tasks[n:]
	}
}

// unhandled is the last case of every actor. The messages of the library's own lifecycle need no
// handling; any other message here is a bug. testkit fails a test that logs it.
func unhandled(ctx actor.Context, log *slog.Logger) {
	switch msg := ctx.Message().(type) {
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Terminated, *actor.DeadLetterResponse:
	default:
		log.Error("unhandled message", "actor", ctx.Self().Id, "message", typeName(msg))
	}
}
