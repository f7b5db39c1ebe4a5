package messages

import (
	"cmp"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"addon-operator/hooks"
)

// The names of owners that are no modules.
const (
	GlobalHooks = "global-hooks"
	Converge    = "converge"
)

// ModuleOf is the owner if it is a module, else empty.
func ModuleOf(owner string) string {
	if owner == GlobalHooks || owner == Converge {
		return ""
	}
	return owner
}

// MainQueue is the queue of everything that has no queue of its own (F2).
const MainQueue = "main"

// Task is one unit of work in a queue. A retry is the same task. Actors have copies of it, which
// they identify by the ID.
type Task struct {
	// ID is unique in the life of the process.
	ID string
	// Queue holds the task; Owner executes it: GlobalHooks, Converge or the name of a module.
	Queue, Owner string
	Work         Work
	// AllowFailure: a failed attempt is the last (F12).
	AllowFailure bool
	// Cause says why the task exists: an activation reason such as OperatorStartup,
	// Schedule, Kubernetes, ConfigMap (I3, F17).
	Cause Cause
	// Reload is the number of the reload this task is a step of, or 0.
	Reload int
	// Group is the ID of the RunModules task that this task is a part of, or empty.
	Group string
	// Held: it has failed, and waits until a reload has begun.
	Held bool
	// Trace is the span that this task is a part of, as a W3C traceparent; empty without one.
	Trace    string
	QueuedAt time.Time
}

// InQueue is the ID of the task as its queue knows it.
func (t Task) InQueue() string { return cmp.Or(t.Group, t.ID) }

// Instead is the task as one that runs in place of another, too: what a person did is its cause rather than other
// things.
func (t Task) Instead(of Task) Task {
	if of.Cause.byPerson() && !t.Cause.byPerson() {
		t.Cause = of.Cause
	}
	return t
}

// Hook is the hook that the task runs, or empty.
func (t Task) Hook() string {
	switch w := t.Work.(type) {
	case RunHook:
		return w.Hook
	case SynchronizeHook:
		return w.Hook
	}
	return ""
}

// Cause is the reason of a task, what in particular it was, and what caused that.
type Cause struct {
	// Activation is one of the constants below.
	Activation string `json:"activation"`
	// Detail is for people, for example "Pod default/web Modified".
	Detail string `json:"detail,omitempty"`
	// Parent is what led to this; nil for what came from outside.
	Parent *Cause `json:"parent,omitempty"`
	// Trace is the span that made this cause, as a W3C traceparent; empty without one.
	Trace string `json:"trace,omitempty"`
}

// maxChain bounds a chain of causes, which a loop would make grow without end. It is well above the
// length at which loops are delayed (actors/queue.go).
const maxChain = 40

// In returns the cause as one that a span has made.
func (c Cause) In(trace string) Cause {
	c.Trace = trace
	return c
}

// By returns a cause that was led to by another.
func By(activation, detail string, parent Cause) Cause {
	c := Cause{Activation: activation, Detail: detail, Parent: &parent}
	return c.shortened(maxChain)
}

// First is what began the chain (I3).
func (c Cause) First() Cause {
	for c.Parent != nil {
		c = *c.Parent
	}
	return c
}

// shortened bounds the chain to n links. It leaves out links just after the first one, which
// metrics name (I3): the latest links show a loop.
func (c Cause) shortened(n int) Cause {
	if c.Parent == nil {
		return c
	}
	parent := c.First()
	if n > 2 {
		parent = c.Parent.shortened(n - 1)
	}
	c.Parent = &parent
	return c
}

// Chain lists the cause and what led to it, the latest first.
func (c Cause) Chain() []Cause {
	var chain []Cause
	for link := &c; link != nil; link = link.Parent {
		chain = append(chain, Cause{Activation: link.Activation, Detail: link.Detail})
	}
	return chain
}

// Activation reasons.
const (
	// The values are labels of metrics and spans (I3): they are an interface, do not change them.
	Startup      = "OperatorStartup"
	ByConfigMap  = "ConfigMap"
	ByKubernetes = "Kubernetes"
	BySchedule   = "Schedule"
	ByHook       = "HookChangedValues"
	BySync       = "Synchronization"
	ByAbsence    = "HelmResourcesAbsent"
	ByDrift      = "Drift"
	ByScript     = "EnabledScript"
	ByFiles      = "Files"
	ByHand       = "ByHand"
	ByReview     = "Review"
)

// LogValue logs a cause as text.
func (c Cause) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String is the last link of the chain.
func (c Cause) String() string { return strings.TrimSuffix(c.Activation+": "+c.Detail, ": ") }

// Work is what a task does: one of the types of this package.
type Work any

// byPerson reports whether a person has done it, or what led to it.
func (c Cause) byPerson() bool {
	first := c.First().Activation
	return first == ByConfigMap || first == ByHand
}

// Few names the first ones, up to most and 400 bytes, and counts the others: what follows in a text must not be cut.
func Few(most int, names []string) string {
	shown, size := 0, 0
	for ; shown < min(most, len(names)); shown++ {
		if size += len(names[shown]); size > 400 && shown > 0 {
			break
		}
	}
	text := strings.Join(names[:shown], ", ")
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// RunHook runs one hook once, for one or more triggers (C41).
type RunHook struct {
	Hook string
	// Binding is that of the first trigger.
	Binding  hooks.BindingType
	Triggers []Trigger
}

// Trigger is one reason to run a hook: a binding context whose snapshots are still missing, because they are taken at
// the moment the hook is started (C35); so are the objects of a Synchronization, which is in place of events that were
// too many (P5).
type Trigger struct {
	Context hooks.Context
	// Snapshots are the bindings whose objects the context shows.
	Snapshots []string
	// Binding and Index say which binding of the hook fired: its type, and its place in the
	// list of these. Names may repeat.
	Binding hooks.BindingType
	Index   int
}

// SynchronizeHook runs a hook for objects that existed before its watches: one binding,
// or all bindings of one group (C41, X24). Afterwards their events flow.
type SynchronizeHook struct {
	Hook string
	// Bindings are places in the hook's list of kubernetes bindings.
	Bindings []int
	Names    []string // of the same bindings, for people
	// Late: the start-up continued without it.
	Late bool
	// Again: the bindings were synchronized before. Its hook has missed events since (P5, C17).
	Again bool
	// Instead: it replaces events that were dropped. The hook runs even if it has said that it need
	// not at Synchronization, because it would miss the changes otherwise.
	Instead bool
}

// RunModule takes a module through start-up (if it is not started), beforeHelm, Helm
// and afterHelm (G5).
type RunModule struct{}

// RunModules runs modules of the same order side by side (design 4, F15).
type RunModules struct{ Names []string }

// DeleteModule uninstalls the release of a disabled module (G6).
type DeleteModule struct{}

// ReloadModules begins steps 3 to 8 for all modules (seed 001 'reload all modules').
type ReloadModules struct{}

// DiscoverModules finds out which modules are enabled and decides what to do (G4). With Modules it is no step of a
// reload: their sections have changed, which their enabled scripts may see. These modules run if it finds nothing else
// than before; else a reload follows (E6).
type DiscoverModules struct{ Modules []string }

// PurgeRelease uninstalls a release that has no module directory (G7).
type PurgeRelease struct{ Release string }

// AwaitSynchronization holds the queue until the Synchronizations of the owner's hooks in other
// queues have succeeded or are deferred (F13, F14).
type AwaitSynchronization struct{}

// FinishReload is the last step: all others have ended (G8).
type FinishReload struct{}

// About is what the run is about, for people.
func (w RunHook) About() string {
	var names []string
	for _, t := range w.Triggers {
		what := cmp.Or(t.Context.WatchEvent, string(t.Context.Type))
		if name := strings.TrimSuffix(t.Context.Binding+"/"+what, "/"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return w.Hook + " " + strings.Join(names, ",")
}

// Kind is the name of the work.
func (t Task) Kind() string { return reflect.TypeOf(t.Work).Name() }

// About is what the work is about, for people; empty for no more than its owner.
func (t Task) About() string {
	switch w := t.Work.(type) {
	case RunHook:
		return w.About()
	case SynchronizeHook:
		return w.Hook + " " + strings.Join(w.Names, ",")
	case RunModules:
		return strings.Join(w.Names, ",")
	case DiscoverModules:
		return strings.Join(w.Modules, ",")
	case PurgeRelease:
		return w.Release
	}
	return ""
}

// String describes the task in one line, without values.
func (t Task) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", t.Kind(), t.Owner, t.About()))
}

// What is the work of the task in one line, without its owner.
func (t Task) What() string { return strings.TrimSpace(t.Kind() + " " + t.About()) }

// Enqueue adds tasks to a queue, in the given order: at its tail, or before everything
// that waits (F4, F5).
type Enqueue struct {
	Queue string
	Tasks []Task
	Head  bool
}

// ExecuteTask asks an owner to do the head of a queue. The answer is one TaskDone.
type ExecuteTask struct{ Task Task }

// TaskDone notifies a queue that it need not wait for a task any more: nothing of it runs, or it goes on outside of
// the queue. It is sent once for each ExecuteTask.
type TaskDone struct {
	ID string
	// Held: it has failed, and goes on when it is executed again.
	Held bool
}

// TaskFailed notifies a queue that an attempt at its task, or at a part of it, has failed, and that the owner will try
// it again.
type TaskFailed struct{ ID string }

// EndAttempts asks the owner of a failing head to make no further attempt: a task is due that makes this one needless,
// or, with Hold, that comes before the next attempt. The answer is [TaskDone], when the attempt in progress has ended.
type EndAttempts struct {
	ID   string // of the task, or of the group that it is a part of
	Hold bool
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
