package shared

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cenkalti/backoff/v4"

	"addon-operator/actors/plan"
	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/messages/view"
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
	// PromptReleaseWatch: ReleaseWatch reports each change before the call that makes it returns, as in
	// scenarios. So the healer does not gather reports.
	PromptReleaseWatch bool
	// Notices may be nil: then there are no Events.
	Notices Notices
	// Renderer may be nil: then charts cannot be rendered on request.
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
	// Dispatcher runs the mailboxes; nil for goroutines.
	Dispatcher actor.Dispatcher
	// Crashed ends the process after the crash of an actor, which was logged; nil for a panic.
	Crashed func()
	// Observe is called with each message before its actor handles it, and returns what to call
	// afterwards. asked says that a run waits for the answer. Optional.
	Observe func(actor *actor.PID, message any, asked bool) (handled func())
	// SnapshotLimit is how many bytes the snapshot of one binding may take. 0 means no limit.
	SnapshotLimit int
	// Backoff makes the delays between the attempts at a task; nil for those of rule F7.
	Backoff func() backoff.BackOff
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
}

// Secret is the Secret that holds confidential values, a layer right above the ConfigMap (D40).
// Config watches it, validates both together, and writes to it what hooks patch at paths that a
// schema marks with x-secret (D41). It has the form of the ConfigMap. Package kube implements it;
// Read fails with kube.ErrForbidden when the operator may not read it.
type Secret interface {
	// The methods are as those of ConfigMap. Errors and logs must not quote the contents.
	Read(ctx context.Context) (kube.ConfigMap, error)
	Watch(ctx context.Context, notify func(kube.ConfigMap))
	Write(ctx context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error)
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
	// Read lists them; there are none without the kind. Without the right, its error is of reason Forbidden.
	Read(ctx context.Context) ([]kube.ModuleObject, error)
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

// Notices shows people in the cluster what they must know, where they look first: as
// Kubernetes Events. It returns at once. Package kube implements it.
type Notices interface{ Record(n kube.Notice) }
