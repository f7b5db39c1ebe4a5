package work

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"addon-operator/actors/metrics"
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
)

// Services are what runs use: processes, Helm, the cluster, what is counted. Command and testkit fill
// them as a part of shared.World; nothing in them is changed afterwards.
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
	Metrics *metrics.Metrics
	// Tracer makes spans of what the operator does; nil for none.
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
	// HookRan is called when the process of a hook has ended, in the goroutine of its run, unless the run was
	// cancelled; nil when no one asks.
	HookRan func(view.HookRun)
	// HookTimeout is the time limit that Hooks gives to hooks that set none, for the report of one that hangs; 0
	// means none.
	HookTimeout time.Duration
}

// Shared is what all runs of a process share. Only its atomic fields change after the start.
type Shared struct {
	Services
	Tasks   Tasks
	notify  func(kube.Notice)
	shows   atomic.Int64 // counts Synchronization runs, writes and runs of hooks, for their names
	running runningHooks
	// Tree is what is in force of the files on disk; converge alone replaces it.
	Tree   atomic.Pointer[addons.Tree]
	warned supervisor.Shared[map[string][]hookWarning] // by the last load of the hooks of an owner
}

// NewShared makes it; notify shows a notice to people.
func NewShared(s Services, notify func(kube.Notice)) *Shared {
	return &Shared{Services: s, notify: notify, running: runningHooks{log: s.Log}}
}

// Tasks makes tasks, and counts them for their IDs.
type Tasks struct{ made atomic.Int64 }

// New makes a task for the main queue.
func (t *Tasks) New(owner string, work messages.Work, cause messages.Cause) messages.Task {
	return messages.Task{ID: t.NewID(), Queue: messages.MainQueue, Owner: owner, Work: work, Cause: cause}
}

// NewID makes a name that no other task has.
func (t *Tasks) NewID() string { return strconv.FormatInt(t.made.Add(1), 10) }

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
	// know counts as missing. It is an error while a module claims an object of the release.
	Purge(ctx context.Context, release string, how helm.Purging) (existed bool, err error)
	Releases(ctx context.Context) ([]string, error)
	// Ours returns those of the given releases that an operator has installed.
	Ours(ctx context.Context, releases []string) ([]string, error)
	// Objects are those that the chart of a module has with its values; nothing is written.
	Objects(ctx context.Context, m helm.Module) ([]helm.Object, error)
	// Close is called after the last call of the others.
	Close(ctx context.Context)
}

// Objects changes objects for hooks (chapter k). Package kube implements it.
type Objects interface {
	// CheckObjectPatches says what cannot be right with operations, without writing.
	CheckObjectPatches(ctx context.Context, patches []objectpatch.Patch) error
	// ApplyObjectPatches executes operations and returns those that have failed.
	ApplyObjectPatches(ctx context.Context, patches []objectpatch.Patch) (left []objectpatch.Patch, err error)
}

// CRDs installs the definitions that modules bring and waits until their kinds are served
// (chapter m). Definitions implements it.
type CRDs interface {
	// EnsureCRDs takes name, directory and values of each module, and returns the names of what it has written, with
	// their files.
	EnsureCRDs(ctx context.Context, modules []helm.Module) (written map[string]string, err error)
	// CheckCRDs says which file of a module is no definition, without the cluster.
	CheckCRDs(m helm.Module) error
	// EnsureSubcharts installs those of subcharts that have been enabled since.
	EnsureSubcharts(ctx context.Context, m helm.Module) error
}
