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
	// HealDelay is how long news of absent objects is gathered; 0 is a second. Who sets it
	// notifies changes at once: none of them is late.
	HealDelay time.Duration
	// ProgressDeadline is how long an object of a release may be in progress before that is a problem (H25); 0 is 10 minutes.
	ProgressDeadline time.Duration
	// Notices may be nil: then there are no Events.
	Notices Notices
	// Renderer may be nil: then charts cannot be rendered on request.
	Renderer plan.Renderer
	// Drift says what to do with objects that others changed: DriftReport, DriftCorrect, or
	// nothing; DriftPeriod is the time between two looks at a module.
	Drift       string
	DriftPeriod time.Duration
	// Watch begins to watch objects. It returns at once; notify and synced are called from
	// one goroutine in order (kube.Watcher.Watch).
	Watch func(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (Watch, error)
	// WentBack begins to report watches that saw the API server go back to an earlier state
	// (kube.Client.WentBack). It may be nil: then this is not noticed.
	WentBack func(ctx context.Context, notify func(watch string))
	// AllowPurge and PurgeShare say which purges are held back until a person allows them (P1).
	AllowPurge bool
	PurgeShare int
	// Namespace and ConfigMapName are where the ConfigMap is, for commands in messages.
	Namespace, ConfigMapName string
	// Isolate parks a module whose run fails: it is retried outside of the main queue, and the
	// others go on. Without it the failing run stays at the head of main (seed 001).
	Isolate bool
	// Disk begins to watch the directories of modules and global hooks, and calls notify when something there may have
	// changed. Nil: they are compared at each reload only (P8).
	Disk func(ctx context.Context, notify func())
	// Leadership returns who leads among several replicas; nil when this one is alone.
	Leadership func() view.Leadership
	// WarmUp reads ahead what a follower can; nil for nothing.
	WarmUp func(ctx context.Context) error
	// Dispatcher runs the mailboxes; nil for goroutines.
	Dispatcher actor.Dispatcher
	// Crashed ends the process after the crash of an actor, which was logged; nil for a panic.
	Crashed func()
	// Observe is called with each message before its actor handles it, and returns what to call when that
	// is done; asked: a run waits for its answer. Optional.
	Observe func(actor *actor.PID, message any, asked bool) (handled func())
	// SnapshotLimit is how many bytes the snapshot of one binding may take, and those of all bindings one and a half of it; 0
	// means any number.
	SnapshotLimit int
	// Backoff makes the delays between the attempts at a task; nil for those of rule F7.
	Backoff func() backoff.BackOff
}

// ReleaseWatch reports what others do to releases and their objects (H13). Package helm
// implements it.
type ReleaseWatch interface {
	// Watch returns at once; it is called once, before the first Apply. assess has the health of objects reported again that
	// were just written.
	Watch(ctx context.Context, news helm.News) (assess func(written []helm.Object))
	// Present and WatchedKinds look into memory.
	Present(o helm.Object) bool
	WatchedKinds() []kube.WatchedKind
}

// ConfigMap is the ConfigMap that holds the values of users (D10).
type ConfigMap interface {
	Read(ctx context.Context) (kube.ConfigMap, error)
	Watch(ctx context.Context, notify func(kube.ConfigMap))
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

// program is what all actors share. But for what is atomic it is not written to after the start.
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
	objectsPath  = operatorPath + "/module-objects"
)

// owner is the address of an owner of tasks.
func (p *program) owner(name string) *actor.PID { return p.PID(work.OwnerPath(name)) }

// task makes a task for the main queue.
func (p *program) task(owner string, work messages.Work, cause messages.Cause) messages.Task {
	return p.runs.NewTask(owner, work, cause)
}

// enqueue sends tasks to their queue: the main queue always exists, others come and go, which
// the operator sees to. The path from one sender to one queue is always the same, so the
// order is kept.
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

// unhandled is the last case of every actor: the lifecycle of the library is silent,
// anything else is a mistake of ours. testkit fails a test that logs it.
func unhandled(ctx actor.Context, log *slog.Logger) {
	switch msg := ctx.Message().(type) {
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Terminated, *actor.DeadLetterResponse:
	default:
		log.Error("unhandled message", "actor", ctx.Self().Id, "message", typeName(msg))
	}
}
