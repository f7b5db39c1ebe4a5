package actors

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/kube/objectpatch"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// Services are what runs use: processes, Helm, the cluster, what is counted. Command and testkit fill
// them as a part of [World]; nothing in them is changed afterwards.
type Services struct {
	Log      *slog.Logger
	Hooks    HookRunner
	Releases Releases
	// Charts are those of the modules, to look at their values; nil: they are not looked at.
	Charts  *charts.Cache
	Objects Objects
	// CRDs may be nil: then modules bring none.
	CRDs CRDs
	// Plans may be nil: then there are no plans and no search for drift.
	Plans   plan.Helm
	Metrics *Metrics
	// Tracer makes spans of what the operator does; nil for one that does nothing.
	Tracer trace.Tracer
	// WriteContext is the context of what Helm does. It is done when Helm must stop writing at once: at the
	// end of the grace period. Cancelling a task does not stop Helm in the middle.
	WriteContext context.Context
	// Dirs are searched again at each reload.
	Dirs addons.Dirs
	// IgnoredRelease is never purged: the release that deployed the operator itself (E10, B6).
	IgnoredRelease string
	// Width is how many modules of the same order may run side by side; 0 counts as 1.
	Width int
	// JQLibrary are directories of modules that the filters of object patches import.
	JQLibrary []string
	// Reviews: the API server can ask hooks.
	Reviews bool
	// HookRan is called when the process of a hook has ended, in the goroutine of its run, unless the run was
	// cancelled; nil when no one asks.
	HookRan func(view.HookRun)
}

// Shared is what all runs of a process share. Only its atomic fields change after the start.
type Shared struct {
	Services
	notify  func(kube.Notice) // shows a notice to people
	made    atomic.Int64      // counts tasks, for their IDs
	shows   atomic.Int64      // counts Synchronization runs, writes and runs of hooks, for their names
	running sync.Map          // the hooks and enabled scripts that run now, as *view.RunningHook
	// Tree is what is in force of the files on disk; converge alone replaces it.
	Tree atomic.Pointer[addons.Tree]
}

// NewTask makes a task for the main queue.
func (s *Shared) NewTask(owner string, work messages.Work, cause messages.Cause) messages.Task {
	return messages.Task{ID: s.NewID(), Queue: messages.MainQueue, Owner: owner, Work: work, Cause: cause}
}

// NewID makes a name that no other task has.
func (s *Shared) NewID() string { return strconv.FormatInt(s.made.Add(1), 10) }

// HookRunner runs executables. Package hooks implements it.
type HookRunner interface {
	Configure(ctx context.Context, file hooks.File, workingDir string, scope hooks.Scope) ([]hooks.Hook, error)
	Run(ctx context.Context, run hooks.Run) (hooks.Result, error)
	Enabled(ctx context.Context, script hooks.EnabledScript) (hooks.Answer, error)
}

// Releases installs and removes charts. Package helm implements it.
type Releases interface {
	Apply(ctx context.Context, m helm.Module) (helm.Outcome, error)
	Uninstall(ctx context.Context, m helm.Module) (existed bool, err error)
	// Purge is Uninstall for a release whose module is gone (G7); one that Ours does not
	// know counts as missing.
	Purge(ctx context.Context, release string, how helm.Purging) (existed bool, err error)
	Releases(ctx context.Context) ([]string, error)
	// Ours returns those of the given releases that an operator has installed.
	Ours(ctx context.Context, releases []string) ([]string, error)
	// Close is called after the last call of the others.
	Close(ctx context.Context)
}

// Objects changes objects for hooks (chapter k). Package kube implements it.
type Objects interface {
	// CheckObjectPatches says what cannot be right with operations, without writing.
	CheckObjectPatches(ctx context.Context, patches []ObjectPatch) error
	// ApplyObjectPatches executes operations and returns those that have failed.
	ApplyObjectPatches(ctx context.Context, patches []ObjectPatch) (left []ObjectPatch, err error)
}

// ObjectPatch is what a hook wants done to an object.
type ObjectPatch = objectpatch.Patch

// CRDs installs the definitions that modules bring and waits until their kinds are served
// (chapter m). Definitions implements it.
type CRDs interface {
	// EnsureCRDs takes name, directory and values of each module.
	EnsureCRDs(ctx context.Context, modules []helm.Module) error
	// CheckCRDs says which file of a module is no definition, without the cluster.
	CheckCRDs(m helm.Module) error
	// Ensured reports whether what a module brings was installed, with the files and subcharts that it has now.
	Ensured(m helm.Module) bool
}

// limits are what limits the runs of an owner's hooks, by the names of the hooks: token buckets (C10), and who runs
// now, or answers. They live as long as the owner: a bucket does not fill up when a run is tried again, and a run of a
// module that was disabled is over before the hook runs again. Runs share them.
type limits struct{ buckets, running, answering sync.Map }

// of returns the token bucket of a hook: one token each executionMinInterval, at most
// executionBurst of them; nil when the hook sets no limit. Other limits are another bucket.
func (l *limits) of(hook hooks.Hook) *rate.Limiter {
	s := hook.Config.Settings
	if s.ExecutionMinInterval <= 0 {
		return nil
	}
	limiter := rate.NewLimiter(rate.Every(s.ExecutionMinInterval), max(1, s.ExecutionBurst))
	known, _ := l.buckets.LoadOrStore(fmt.Sprint(hook.Name, " ", s.ExecutionMinInterval, s.ExecutionBurst), limiter)
	limiter, _ = known.(*rate.Limiter)
	return limiter
}

// alone does what must not be done by two runs of one hook at the same time, whatever queues they are in (C46): they
// write the same values, objects and files. The snapshots and values that a run shows are taken within, so the run
// that is last has the newest ones.
//
// It cannot deadlock: a run that waits may hold the head of its queue and the release of its module, but the one in
// progress takes neither any more. It asks only monitors and its owner, and these wait for no run.
func (h hookJob) alone(do func() error) error {
	name := h.hook.Name
	if h.Owner != messages.GlobalHooks {
		_, name, _ = strings.Cut(name, "/") // the directory of the module may be renamed during a run
	}
	known, _ := h.Limits.running.LoadOrStore(name, semaphore.NewWeighted(1)) // first come, first served
	turn, _ := known.(*semaphore.Weighted)
	waits := !turn.TryAcquire(1)
	if waits {
		h.run.Step("%s: waits until another run of it has ended", h.hook.Name)
		if err := turn.Acquire(h.run.Context(), 1); err != nil {
			return fmt.Errorf("hook %s: wait until another run of it has ended: %w", h.hook.Name, err)
		}
	}
	defer func() {
		defer h.run.Turn()() // in tests, one that waits goes on first
		turn.Release(1)
	}()
	if waits { // others may have changed the values meanwhile
		if err := h.ask(h.run, handOver{}); err != nil {
			return err
		}
	}
	return do()
}

// Paths of the actors.
const (
	Root         = "operator"
	modulePath   = Root + "/module/"
	queuePath    = Root + "/queue/"
	globalPath   = Root + "/" + messages.GlobalHooks
	convergePath = Root + "/" + messages.Converge
	monitorsPath = Root + "/monitors"
	healerPath   = Root + "/healer"
	configPath   = Root + "/config"
	schedulePath = Root + "/schedule"
	objectsPath  = Root + "/module-objects"

	admissionPath = Root + "/admission"
)

// ownerPath is the address of an owner of tasks.
func ownerPath(name string) string {
	switch name {
	case messages.GlobalHooks:
		return globalPath
	case messages.Converge:
		return convergePath
	}
	return modulePath + name
}

// known is all that a run may know of its owner, as one value that is never written to. The owner
// hands it over before each attempt, and again with each answer. So a run does not ask its owner
// for what it has, and what it has checked is what it uses: nothing changes in between.
type known struct {
	// Global and Own are the sections of values (D2); those of global hooks are the same.
	Global, Own *values.Section
	Enabled     []string // modules, in the order they run (D9)

	Hooks  []hooks.Hook
	Loaded bool // the hooks of a module are asked for their configuration when it is enabled
	// Settled are bindings: true when they are synchronized, false when that is deferred, and not waited for.
	Settled map[messages.BindingKey]bool

	// The rest is of modules only. Module is what the values come from, and GlobalFiles is where those of Global do.
	Module      addons.Module
	GlobalFiles addons.Global
	// Started: the start-up execution was finished once since the
	// module was enabled (X13). Begun: hooks may have run since it was last deleted.
	Started, Begun bool
	Maintenance    string // the mode, empty for none (H15)
	Applied        bool   // its last run has succeeded, and no upgrade is held back
	Drifted        []helm.Object
	Allowed        string // deletions that a person has allowed, as helm.Module.Allowed

	// Changed: hooks of this attempt have changed the values of their owner.
	Changed bool
	// Out: the attempt is outside of its queue, which continues.
	Out bool
	// Runs is how many runs the owner has.
	Runs int
}

// handed answers whatever a run asks its owner for. What the run knows from now on comes with it,
// also with an error.
type handed struct {
	Known known
	Err   error
}

// handOver asks an owner for what its runs know. A run asks when it has waited for others than its
// owner, so that a hook sees the values as they are when its process starts.
type handOver struct{}

// ask asks the owner of the run, and takes what it hands over.
func (j Job) ask(run *supervisor.Run, question any) error {
	got, err := supervisor.Ask[handed](run, ownerPath(j.Owner), question)
	if err != nil {
		return err
	}
	got.Known.Changed = got.Known.Changed || j.Known.Changed
	*j.Known = got.Known
	return got.Err
}

// Values are those that hooks of the owner see: merged ones, and the ConfigMap's alone (D2, D8).
// The list of enabled modules is added for hooks of modules only and never stored (D9).
func (k *known) Values() (merged, config map[string]any) {
	merged = map[string]any{values.GlobalKey: k.Global.Merged(), k.Own.Key(): k.Own.Merged()}
	config = map[string]any{values.GlobalKey: k.Global.Config(), k.Own.Key(): k.Own.Config()}
	return merged, config
}

// Hanging lists the hooks and enabled scripts that have been running for a minute or more, the longest first.
func (s *Shared) Hanging() []view.RunningHook {
	var out []view.RunningHook
	for key := range s.running.Range {
		if h, _ := key.(*view.RunningHook); h.Hangs() {
			out = append(out, *h)
		}
	}
	slices.SortFunc(out, func(a, b view.RunningHook) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Hook, b.Hook))
	})
	return out
}

// hookBegins notes that the process of a hook, or of an enabled script, is about to start; the caller calls ended
// when it is gone.
func (j Job) hookBegins(name, binding string) (ended func()) {
	h := &view.RunningHook{Module: messages.ModuleOf(j.Owner), Hook: name, Binding: binding, Began: time.Now()}
	j.running.Store(h, true)
	return func() { j.running.Delete(h) }
}

// updateModule gives a module actor what the disk says about it now (P8). Again: its own files have changed, or its
// directory came back after it was removed, or has another name; so the module starts from the beginning. Else only
// values.yaml files of the roots differ.
type updateModule struct {
	Module  addons.Module
	Section *values.Section // static values and schemas
	Again   bool
}

// updateGlobal gives global-hooks what has changed on disk (P8).
type updateGlobal struct {
	Section *values.Section // static values and schemas
	Hooks   []hooks.Hook
	Asked   bool // the hooks were asked for their configuration; else they are the same
}

// addSections gives config static values and schemas. With Check they are to take the place of others, and those that
// fit what people wrote are used from now on. Else they are of modules that have an actor from now on: each receives
// its section of the ConfigMap before sectionsAdded answers the discovery that asked the operator for them, so that no
// run begins without its section.
type (
	addSections struct {
		Check    bool
		Modules  []addons.Module
		Sections map[string]*values.Section // by key
	}
	// sectionsAdded is the answer. Refused says why sections do not fit, by key; Err why the operator has spawned no
	// module.
	sectionsAdded struct {
		Refused map[string]error
		Err     error
	}
)

// span is a part of a trace. Without tracing it is one that does nothing, and has no name; the zero value has not
// begun.
//
// A converge is one span that begins in one message and ends in another; its tasks carry its name
// (Task.Trace) as text, because messages hold no contexts. What events cause has a trace of its
// own, with a link to the span that led to it (Cause.Trace).
type span struct{ trace.Span }

// End ends the span; err, if not nil, is why it failed.
func (s span) End(err error) {
	if s.Span == nil {
		return
	}
	if err != nil {
		s.RecordError(err)
		first, _, _ := strings.Cut(err.Error(), "\n")
		s.SetStatus(codes.Error, first)
	}
	s.Span.End()
}

// span begins a part of the job: of the part that run is in, or, as the first one, of what the task
// is a part of. The run that it returns is in the new part; what is to become a part of that must
// use it. The caller ends the span.
func (j Job) span(run *supervisor.Run, name string, about ...attribute.KeyValue) (*supervisor.Run, span) {
	if module := messages.ModuleOf(j.Owner); module != "" {
		about = append(about, attribute.String("module", module))
	}
	ctx, options := run.Context(), []trace.SpanStartOption{trace.WithAttributes(about...)}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, spanContext(j.Task.Trace))
		options = append(options, trace.WithAttributes(
			attribute.String("queue", j.Task.Queue), attribute.String("task", j.Task.ID), attribute.Int("attempt", run.Attempt()+1),
			attribute.String("activation", j.Task.Cause.First().Activation), attribute.String("cause", j.Task.Cause.String()),
		))
		if j.Task.Trace == "" {
			options = append(options, linkTo(j.Task.Cause))
		}
	}
	ctx, s := j.Tracer.Start(ctx, name, options...)
	return run.With(ctx), span{s}
}

// linkTo links to the span that led to a cause, if it had one.
func linkTo(c messages.Cause) trace.SpanStartOption {
	return trace.WithLinks(trace.Link{SpanContext: spanContext(c.Trace)})
}

// convergeSpan begins the span of a reload, the start-up before the first one included.
func (s Services) convergeSpan(reload int, cause messages.Cause) span {
	_, began := s.Tracer.Start(context.Background(), "converge", linkTo(cause), trace.WithNewRoot(), trace.WithAttributes(
		attribute.Int("reload", reload), attribute.String("activation", cause.First().Activation), attribute.String("cause", cause.String()),
	))
	return span{began}
}

// Name is the span as text, for tasks and causes: a W3C traceparent. It is empty for none.
func (s span) Name() string { return traceparent(s.SpanContext()) }

// traceOf is the span that a run is in, as text.
func traceOf(run *supervisor.Run) string {
	return traceparent(trace.SpanContextFromContext(run.Context()))
}

// traceparent is a span as the header of W3C Trace Context; empty for none.
func traceparent(s trace.SpanContext) string {
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), s), header)
	return header["traceparent"]
}

// spanContext reads what traceparent wrote; anything else is no span.
func spanContext(name string) trace.SpanContext {
	header := propagation.MapCarrier{"traceparent": name}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), header))
}

// traceEnvironment lets a hook join the trace: it is what programs that trace look for.
func traceEnvironment(run *supervisor.Run) []string {
	if name := traceOf(run); name != "" {
		return []string{"TRACEPARENT=" + name}
	}
	return nil
}
