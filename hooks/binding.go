package hooks

import (
	"cmp"
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Scope is the kind of owner of a hook; it decides which bindings are allowed (C8).
type Scope string

const (
	// Global hooks are in the global hooks directory and own the global values.
	Global Scope = "global"
	// Module hooks are in hooks/ of a module and own the values of that module.
	Module Scope = "module"
)

// BindingType is the key at the top level of a hook's configuration for what it runs on.
type BindingType string

// The binding types. All but OnSchedule and OnKubernetes are order bindings: their value is a
// number that sorts the hooks which have them (C9).
const (
	OnStartup        BindingType = "onStartup"
	OnSchedule       BindingType = "schedule"
	OnKubernetes     BindingType = "kubernetes"
	BeforeAll        BindingType = "beforeAll"
	AfterAll         BindingType = "afterAll"
	BeforeHelm       BindingType = "beforeHelm"
	AfterHelm        BindingType = "afterHelm"
	BeforeDeleteHelm BindingType = "beforeDeleteHelm"
	AfterDeleteHelm  BindingType = "afterDeleteHelm"
)

// The versions of the protocol, as Config.Version holds them (C5).
const (
	V0 = "v0"
	V1 = "v1"
)

// MainQueue is the queue of every binding that names none.
const MainQueue = "main"

// ReservedQueues is the prefix of the queues that the operator uses itself; no binding may name one
// (F3).
const ReservedQueues = "operator:"

// The watch events, as KubernetesBinding.Events and Context.WatchEvent hold them.
const (
	Added    = "Added"
	Modified = "Modified"
	Deleted  = "Deleted"
)

// File is a hook on disk.
type File struct {
	Name string // relative to the hooks root, prefixed for module hooks: "001-nginx-ingress/hooks/sub/hook.sh" (A16)
	Path string // absolute
	// Batch is which of its hooks this is when the file is a batch of hooks (batch.go): its
	// number, or "ready" for the probe of the module. It is empty for all others.
	Batch string
}

// Hook is a hook with its configuration.
type Hook struct {
	File
	Config *Config
}

// Config is the checked answer of a hook to --config, with all defaults filled in. It is immutable
// and shared: actors compare and send it.
type Config struct {
	Version    string                  // V0 or V1
	Orders     map[BindingType]float64 // order bindings and their order
	Schedules  []Schedule
	Kubernetes []KubernetesBinding
	Settings   Settings
	Warnings   []string // what is legal but probably not meant; to be logged with the hook's name
}

// Settings limit how often a hook runs, and how long: a token bucket gains one token each
// ExecutionMinInterval and holds ExecutionBurst of them (C10); a run that takes longer than Timeout
// is ended and has failed (C29). Zero values mean no limit, a bucket of one, and the limit of the
// operator.
type Settings struct {
	ExecutionMinInterval time.Duration
	ExecutionBurst       int
	Timeout              time.Duration
}

// Binding holds what schedule and kubernetes bindings have in common.
type Binding struct {
	Name         string   // reported to the hook as "binding"
	Queue        string   // MainQueue when the hook names none
	AllowFailure bool     // a failed run is counted but not repeated (F12)
	Group        string   // "" or the name of a group local to the hook (C34)
	Snapshots    []string // kubernetes bindings whose cached objects the context carries: includeSnapshotsFrom, then the members of the group
}

// Schedule is one element of a schedule binding.
type Schedule struct {
	Binding
	Crontab string        // as the hook wrote it; equal texts may share a timer (C13)
	Parsed  cron.Schedule // when it fires next
}

// KubernetesBinding is one element of a kubernetes (v1) or onKubernetesEvent (v0) binding.
type KubernetesBinding struct {
	Binding
	Selection
	Filter                   *Filter  // nil without jqFilter
	Events                   []string // Added, Modified, Deleted: the changes that run the hook; empty means none
	ExecuteOnSynchronization bool     // whether the first list of objects runs the hook; never in v0 (C20)
	WaitForSynchronization   bool     // whether the first module run waits for that run; never in v0
	KeepFullObjects          bool     // whether contexts carry objects, or filter results only
}

// Selection selects the objects of a kubernetes binding. An empty field does not restrict.
type Selection struct {
	APIVersion      string // "" means the preferred version of Kind
	Kind            string // case-insensitive; plural and short names are legal
	Names           []string
	Namespaces      []string
	Labels          *metav1.LabelSelector
	NamespaceLabels *metav1.LabelSelector
	Fields          string // a field selector as the API server reads it
}

// Order returns the order a hook gave for an order binding, and whether it has that binding at all.
func (c *Config) Order(b BindingType) (float64, bool) {
	if c == nil {
		return 0, false
	}
	order, ok := c.Orders[b]
	return order, ok
}

// ByOrder returns the hooks that have the order binding b, sorted by their order, then by name
// (C9).
func ByOrder(hooks []Hook, b BindingType) []Hook {
	var bound []Hook
	for _, hook := range hooks {
		if _, ok := hook.Config.Order(b); ok {
			bound = append(bound, hook)
		}
	}
	slices.SortStableFunc(bound, func(x, y Hook) int {
		xOrder, _ := x.Config.Order(b)
		yOrder, _ := y.Config.Order(b)
		return cmp.Or(cmp.Compare(xOrder, yOrder), cmp.Compare(x.Name, y.Name))
	})
	return bound
}

// OrderSnapshots returns the names of the kubernetes bindings whose objects the context of an order
// binding carries: all of the hook (C31). It is nil where the context has no snapshots at all: for
// onStartup and for hooks of protocol v0. Empty means that the field exists and is empty.
func (c *Config) OrderSnapshots(b BindingType) []string {
	if c == nil || c.Version != V1 || b == OnStartup {
		return nil
	}
	return bindingNames(c.Kubernetes)
}

// bindingNames returns the names of bindings, each once, in their order. It is never nil.
func bindingNames(all []KubernetesBinding) []string {
	names := make([]string, 0, len(all))
	for _, binding := range all {
		if !slices.Contains(names, binding.Name) {
			names = append(names, binding.Name)
		}
	}
	return names
}

// Queues are the queues other than main that hooks name, sorted.
func Queues(all []Hook) []string {
	var names []string
	for _, hook := range all {
		for _, b := range hook.Config.Kubernetes {
			names = append(names, b.Queue)
		}
		for _, b := range hook.Config.Schedules {
			names = append(names, b.Queue)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == MainQueue })
}
