package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/semaphore"

	"addon-operator/actors/plan"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// outside is how many runs and deletes may go on outside of their queues at a time, or more with more parallel
// modules.
const outside = 4

// program is what all actors share. After the start only its atomic fields change, each by the one
// actor that is named next to it, so that every goroutine may read it.
type program struct {
	*supervisor.System
	World
	Runs  *Shared
	Loads *semaphore.Weighted // of modules that load their hooks at the same time
	Out   *semaphore.Weighted // of runs and deletes that go on outside of their queues
	Looks *semaphore.Weighted // for drift

	// Global are the global values, which global-hooks alone replaces; Enabled are the modules that
	// the last discovery has enabled, in their order, by converge alone. Modules hand both over to their runs.
	Global  atomic.Pointer[values.Section]
	Enabled atomic.Pointer[[]string]

	// Changed synchronises itself: several actors, runs and pages use it.
	Changed changedModules
	// SecretOff: the Secret with values is not read or written; set once, before the root is spawned.
	SecretOff atomic.Bool
}

// New makes what the actors of a system share.
func newProgram(system *supervisor.System, w World) *program {
	if w.Secrets == nil {
		w.Secrets = &Secrets{}
	}
	if w.Tracer == nil {
		w.Tracer = noop.NewTracerProvider().Tracer("")
	}
	w.Reviews = w.Webhooks != nil
	p := &program{System: system, World: w, Looks: semaphore.NewWeighted(1)}
	p.Loads, p.Out = semaphore.NewWeighted(int64(max(1, w.Width))), semaphore.NewWeighted(int64(max(outside, w.Width)))
	p.Enabled.Store(new([]string))
	p.Runs = &Shared{Services: w.Services, notify: p.Notify}
	return p
}

// notInForce says of each owner what has changed on disk and is not in force yet, given what a tree has not loaded.
func notInForce(unloaded map[string]string) map[string]string {
	differs := map[string]string{}
	for name, what := range unloaded {
		name = cmp.Or(name, messages.GlobalHooks)
		differs[name] = fmt.Sprintf("%s; the change takes effect at the next reload of all modules", what)
	}
	return differs
}

// World is all that the actors can touch outside their mailboxes. Package cmd/operator and testkit
// fill it; nothing in it is changed afterwards.
type World struct {
	Services
	ConfigMap ConfigMap
	// Secret is the Secret with values, the layer above the ConfigMap (D40); nil for none.
	Secret Secret
	// Secrets are the texts that are never shown; nil for a set of its own.
	Secrets *Secrets
	// ModuleObjects may be nil: then no objects show how modules are doing (J14).
	ModuleObjects ModuleObjects
	// Webhooks may be nil: then the API server asks no hooks. WebhookPeriod is how often certificates are looked at; 0
	// is a minute.
	Webhooks      Webhooks
	WebhookPeriod time.Duration
	// LastValid may be nil: then an invalid ConfigMap ends the start (D16).
	LastValid LastValid
	// ReleaseWatch may be nil: then releases are not healed.
	ReleaseWatch ReleaseWatch
	// HealDelay is how long the healer waits for more reports after one; 0 is a second.
	HealDelay time.Duration
	// Notices may be nil: then there are no Events.
	Notices notices
	// Renderer renders charts on request.
	Renderer plan.Renderer
	// Drift is what happens to objects that others changed: messages.DriftReport,
	// messages.DriftCorrect, or empty for no check. DriftPeriod is the time between two checks of a
	// module; 0 is five minutes.
	Drift       string
	DriftPeriod time.Duration
	// Watch begins to watch objects. It returns at once; notify and synced are called from
	// one goroutine in order (kube.Watcher.Watch).
	Watch func(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (Watch, error)
	// AllowPurge lets every purge through without a person (P1).
	AllowPurge bool
	// Namespace and ConfigMapName are where the ConfigMap is, for commands in messages.
	Namespace, ConfigMapName string
	// Isolate parks a module whose run or delete has failed, or has lasted a minute: it goes on outside of the queue
	// main, and the other modules continue (F19). Without it the failing run stays the head of main (seed 001).
	Isolate bool
	// Disk begins to watch the directories of modules and global hooks, and calls notify when
	// something there may have changed. If it is nil, a reload alone compares them (P8).
	Disk func(ctx context.Context, notify func())
	// Leadership returns who leads among several replicas; nil when this one is alone.
	Leadership func() view.Leadership
	// Mailboxes are options of the actors; their log is that of Services.
	Mailboxes supervisor.Options
	// SnapshotLimit is how many bytes the snapshot of one binding may take. 0 means no limit.
	SnapshotLimit int
}

// ReleaseWatch reports what others do to objects of releases (H13). Package helm implements it.
type ReleaseWatch interface {
	// Watch returns at once; it is called once, before the first Apply. The returned function makes
	// it report the health of objects that were just written again, although their watches may have
	// shown nothing new.
	Watch(ctx context.Context, news helm.News) (assess func(written []helm.Object))
	// The others look into memory. What they do not know, as while the API server is away, is Present and does not
	// Exist.
	Present(o helm.Object) bool
	Exists(o helm.Object) bool
}

// Secret is the Secret that holds confidential values, a layer right above the ConfigMap (D40).
// Config watches it, validates both together, and writes to it what hooks patch at paths that a
// schema marks with x-secret (D41). It has the form of the ConfigMap. Package kube implements it;
// Read fails with kube.ErrForbidden when the operator may not read it. Errors and logs must not quote the contents.
type Secret interface {
	Read(ctx context.Context) (kube.ConfigMap, error)
	Watch(ctx context.Context, notify func(kube.ConfigMap))
	// Write sets keys; nil removes one. base holds the texts that the caller has seen: if another
	// client has changed one of these keys since, nothing is written and the error is
	// kube.ErrConflict.
	Write(ctx context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error)
}

// ConfigMap is the ConfigMap that holds the values of users (D10).
type ConfigMap interface {
	Secret
	// RemoveConfirmation removes the annotation that confirms a purge, when it has this value.
	RemoveConfirmation(ctx context.Context, value string) (kube.ConfigMap, error)
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

// ModuleObjects are the objects of kind Module. Package kube implements it.
type ModuleObjects interface {
	// Suspended lists the modules that are suspended; there are none without the kind. Without the right, its error is of
	// reason Forbidden.
	Suspended(ctx context.Context) (map[string]bool, error)
	// Watch returns at once; notify is called from one goroutine.
	Watch(ctx context.Context, notify func(kube.ModuleNews))
	Create(ctx context.Context, name string, suspend bool) (kube.ModuleObject, error)
	Apply(ctx context.Context, name string, status kube.ModuleStatus) (kube.ModuleObject, error)
	// Delete deletes an object in the state that was read; the error of one that has changed since is of reason Conflict.
	Delete(ctx context.Context, read kube.ModuleObject) error
}

// Watch is a running watch with its snapshot. Package kube implements it.
type Watch interface {
	Snapshot() (objects []kube.Object, seq uint64)
	State() kube.WatchState
	Stop()
}

// notices shows people in the cluster what they must know, where they look first: as
// Kubernetes Events. It returns at once. Package kube implements it.
type notices interface{ Record(n kube.Notice) }

// Owner is the address of an owner of tasks.
func (p *program) Owner(name string) *actor.PID { return p.PID(ownerPath(name)) }

// NewTask makes a task for the main queue.
func (p *program) NewTask(owner string, w messages.Work, cause messages.Cause) messages.Task {
	return p.Runs.NewTask(owner, w, cause)
}

// Enqueue sends tasks to their queue. main always exists and is addressed directly. Other queues
// come and go, so their tasks take the way through the root, which spawns a queue when it must. All
// tasks of one sender for one queue take the same way, so their order is kept.
func (p *program) Enqueue(from sender, head bool, tasks ...messages.Task) {
	queue, to := tasks[0].Queue, p.PID(Root)
	if queue == messages.MainQueue {
		to = p.PID(queuePath + queue)
	}
	from.Send(to, messages.Enqueue{Queue: queue, Tasks: tasks, Head: head})
}

// enqueueUnlooped queues a task that hooks have caused. One that is part of a loop waits first, so that a
// loop is never a busy one; else it returns nil.
func (p *program) enqueueUnlooped(from sender, log *slog.Logger, head bool, t messages.Task) *time.Timer {
	delay := loopDelay(t.Cause)
	if delay == 0 {
		p.Enqueue(from, head, t)
		return nil
	}
	p.Looping(log, t.Cause, delay)
	return time.AfterFunc(delay, func() { p.Enqueue(p, head, t) })
}

// NameQueues has the queues begin that hooks name, so that lists show them from then on.
func (p *program) NameQueues(from sender, found []hooks.Hook) {
	for _, name := range hooks.Queues(found) {
		from.Send(p.PID(Root), messages.Enqueue{Queue: name})
	}
}

// sender is the part of an actor's context, or of the system, that sends.
type sender interface {
	Send(to *actor.PID, message any)
}

// taskEnded notifies the queue that it need not wait for a task any more: nothing of it runs, or it is
// parked.
func taskEnded(ctx sender, t messages.Task, queue *actor.PID) {
	ctx.Send(queue, messages.TaskDone{ID: t.ID})
}

// refuse ends a task that is not executed. The queue is the sender, so this works only while
// ExecuteTask is handled.
func refuse(ctx actor.Context, t messages.Task) { taskEnded(ctx, t, ctx.Sender()) }

// errNoSuchWork reports a bug: a task was sent to an owner that cannot do it.
var errNoSuchWork = errors.New("bug: this owner cannot do this work")

// unhandled is the last case of every actor. The messages of the library's own lifecycle need no
// handling; any other message here is a bug. testkit fails a test that logs it.
func unhandled(ctx actor.Context, log *slog.Logger) {
	switch msg := ctx.Message().(type) {
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Terminated, *actor.DeadLetterResponse:
	default:
		log.Error("bug: actor has no handler for a message", "actor", ctx.Self().Id, "message", fmt.Sprintf("%T", msg))
	}
}

// SendLater sends an actor a message of its own after a delay. A message that is on its way already arrives although
// the timer is stopped.
func (p *program) SendLater(ctx actor.Context, in time.Duration, message any) *time.Timer {
	self := ctx.Self()
	return time.AfterFunc(in, func() { p.Send(self, message) })
}

// notePause is the shortest time between two writes of an object.
const notePause = time.Second

// changedModules are those whose objects are to be compared. All actors note them, in the middle of
// their handlers, so noting must not cost a message each time.
type changedModules struct {
	mu    sync.Mutex
	names map[string]bool
	wake  func() // nil: no one looks
}

// Note marks a module for the next comparison; an empty name stands for all. The first note after a
// comparison starts the timer, which all later ones share.
func (c *changedModules) Note(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wake == nil {
		return
	}
	if len(c.names) == 0 {
		time.AfterFunc(notePause, c.wake)
	}
	c.names[name] = true
}

// Take returns what was noted since the last time, and begins again. From then on wake is called
// for what is new.
func (c *changedModules) Take(wake func()) (names map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names, c.names, c.wake = c.names, map[string]bool{}, wake
	return names
}

// Notify shows a notice, if there are Events. Secrets are hidden in it here, so that no caller can
// forget that.
func (p *program) Notify(n kube.Notice) {
	if p.Notices != nil {
		n.Message = hooks.Printable(p.Secrets.Hide(n.Message))
		p.Notices.Record(n)
	}
}

// ConfirmCommand is the command by which a person allows deletions that are held back (P1).
func (p *program) ConfirmCommand(value string) string {
	return fmt.Sprintf("kubectl annotate --overwrite configmap -n %s %s %s=%s",
		p.Namespace, p.ConfigMapName, kube.ConfirmPurgeAnnotation, value)
}

// A task that fails noticeAfter times, half a minute after it began, does not recover by
// itself. From then on it is reported again every noticeAgain attempts, ten minutes.
const (
	noticeAfter = 4
	noticeAgain = 20
)

// NoticeFailure logs a failed attempt, and reports a task that keeps failing. A failure that is permitted is a
// warning, because nothing retries it (F12).
func (p *program) NoticeFailure(log *slog.Logger, t messages.Task, a supervisor.Attempt) {
	log = log.With("task", t.Kind(), "queue", t.Queue, "attempt", a.Number, "err", a.Err)
	if about := t.About(); about != "" {
		log = log.With("about", about)
	}
	_, purges := t.Work.(messages.PurgeRelease)
	switch {
	case !a.Final:
		log.Error("task failed, will retry", "in", a.In)
	case purges:
		log.Error("task failed; the next reload of all modules tries it again")
	case t.AllowFailure:
		log.Warn("task failed; its failure is allowed")
	default:
		log.Error("task failed; another one comes first")
	}
	if a.Final || (a.Number-noticeAfter)%noticeAgain != 0 {
		return
	}
	reason := "ReloadFailing"
	switch t.Work.(type) {
	case messages.RunModule:
		reason = "ModuleFailing"
	case messages.DeleteModule:
		reason = "ModuleDeletionFailing"
	case messages.RunHook, messages.SynchronizeHook:
		reason = "HookFailing"
	}
	p.Notify(kube.Notice{Warning: true, Reason: reason, Message: fmt.Sprintf("%s keeps failing and is retried: %s", t, ForEverybody(a.Err))})
}

// public are the errors that know what everybody may read of them.
type public interface {
	error
	Public() string
}

// ForEverybody is what an error says that may be read by whoever may see the namespace. Only an error that knows what
// that is says anything: the output of hooks, and texts of charts and of the API server, may hold values. It is
// the one place where the text of a failure is made for Events and objects of kind Module (J9, J14).
func ForEverybody(err error) string {
	known, ok := errors.AsType[public](err)
	switch {
	case !ok:
		return "the log and 'addon-operator queue list' have the details"
	case known.Public() == known.Error():
		return known.Error()
	}
	return known.Public() + "; the log and 'addon-operator why' have the details"
}

// Secrets are the texts that may never be shown: what is in the Secret with values, and what schemas mark with
// x-secret (D41). Whoever writes to people hides them: the log, events, pages, traces and plans. The zero value knows
// none.
type Secrets struct {
	hider atomic.Pointer[values.Hider]
	mu    sync.Mutex
	known map[string][]string // by who knows them: those in force, and then what they have replaced
}

// maxPast bounds how many texts of a source are remembered that were replaced: a release or an error may still have
// them.
const maxPast = 100

// Know replaces the texts of one source.
func (s *Secrets) Know(who string, texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	past := s.known[who]
	if len(texts) <= len(past) && slices.Equal(texts, past[:len(texts)]) {
		return
	}
	past = slices.DeleteFunc(slices.Clone(past), func(text string) bool { return slices.Contains(texts, text) })
	if s.known == nil {
		s.known = map[string][]string{}
	}
	s.known[who] = slices.Concat(texts, past[:min(len(past), maxPast)])
	s.hider.Store(values.NewHider(slices.Concat(slices.Collect(maps.Values(s.known))...)))
}

// Hide gives a text without them.
func (s *Secrets) Hide(text string) string { return s.Hider().Text(text) }

// Hider hides them in trees.
func (s *Secrets) Hider() *values.Hider { return s.hider.Load() }
