package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"addon-operator/jq"
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
	Version     string                  // V0 or V1
	Orders      map[BindingType]float64 // order bindings and their order
	Schedules   []Schedule
	Kubernetes  []KubernetesBinding
	Reviews     []Review
	Conversions []Conversion
	Settings    Settings
	Warnings    []string // what is legal but probably not meant; to be logged with the hook's name
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

// labels checks what the schema cannot: the grammar of labels and how many values an operator
// takes. The operator of an expression may be in either of two keys in v0 (X9). nil means that there
// is no selector, which selects everything.
func (r *report) labels(at string, from *writtenLabels) *metav1.LabelSelector {
	if from == nil {
		return nil
	}
	selector := &metav1.LabelSelector{MatchLabels: from.MatchLabels}
	for i, e := range from.MatchExpressions {
		if operator := cmp.Or(e.Operator, e.Operation); operator == "" || e.Operation != "" && e.Operation != operator {
			r.fail(fmt.Sprintf("%s.matchExpressions[%d]", at, i), "needs operator, or its other name operation: one of In, NotIn, Exists and DoesNotExist")
			return nil
		}
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: e.Key, Operator: metav1.LabelSelectorOperator(cmp.Or(e.Operator, e.Operation)), Values: once(e.Values),
		})
	}
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		r.fail(at, "is not a label selector: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return selector
}

// fields writes a selector in the form that the API server reads; "" for none. Names becomes such a
// selector itself, so metadata.name must not be in both.
func (r *report) fields(at string, from writtenFields, names []string) string {
	var terms []fields.Selector
	for i, e := range from.MatchExpressions {
		field := fmt.Sprintf("%s.matchExpressions[%d].field", at, i)
		switch {
		case strings.ContainsAny(e.Field, `=!,\`): // it would be read as another condition, or as several
			r.fail(field, "%s is not the path of a field; write one such as status.phase", show(e.Field))
		case e.Field == "metadata.name" && len(names) > 0:
			r.fail(field, "is metadata.name, which nameSelector already restricts; use one of the two")
		case e.Operator == "!=" || e.Operator == "NotEquals":
			terms = append(terms, fields.OneTermNotEqualSelector(e.Field, e.Value))
		default:
			terms = append(terms, fields.OneTermEqualSelector(e.Field, e.Value))
		}
	}
	if len(terms) == 0 {
		return ""
	}
	return fields.AndSelectors(terms...).String()
}

// names refuses names that no object can have: a watch for one would fail again and again.
func (r *report) names(at string, names []string) []string {
	for i, name := range names {
		r.name(fmt.Sprintf("%s[%d]", at, i), name)
	}
	return once(names)
}

func (r *report) name(at, name string) {
	if name == "" {
		r.fail(at, "is an empty name; leave it out")
	} else if problems := content.IsPathSegmentName(name); len(problems) > 0 {
		r.fail(at, "%s cannot be a name: it %s", show(name), strings.Join(problems, ", "))
	}
}

// once returns a list without repetitions; nil only for nil.
func once(list []string) []string {
	if list == nil {
		return nil
	}
	found := []string{}
	for _, text := range list {
		if !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	return found
}

const (
	// filterLimit bounds one application of a filter by Apply. A filter that needs a second for one
	// object loops without end, or would delay all other watches.
	filterLimit = time.Second
	// distrust is the limit for a filter that has exceeded its limit within the last penalty. An
	// ordinary filter needs far less than a millisecond; one that loops on each of a thousand
	// objects must not take a quarter of an hour.
	distrust = 10 * time.Millisecond
	penalty  = time.Minute
)

// Filter is a compiled jq expression. It is safe for concurrent use. Of files it has access only to the modules that
// it imports, which are read when it is compiled. A nil *Filter is the filter of a binding without jqFilter.
type Filter struct {
	source     string
	program    *jq.Program
	distrusted atomic.Int64 // until when, in milliseconds of Unix time
}

// CompileFilter compiles a jq expression once for all objects. Modules that it imports are searched
// in the directories of library; without any, imports fail.
func CompileFilter(expression string, library ...string) (*Filter, error) {
	program, err := jq.Compile(expression, library...)
	if err != nil {
		return nil, fmt.Errorf("jq expression %q: %w", expression, err)
	}
	return &Filter{source: expression, program: program}, nil
}

// String returns the expression as the hook wrote it; "" for a nil filter.
func (f *Filter) String() string {
	if f == nil {
		return ""
	}
	return f.source
}

// Apply applies the filter to one object, which it does not change. No result gives null, one
// result that value, several an array of them (C37). A nil filter returns nil. An error is about
// this object only, except that after a timeout the filter has less time for a minute.
func (f *Filter) Apply(object map[string]any) (json.RawMessage, error) {
	if f == nil {
		return nil, nil
	}
	limit := filterLimit
	if time.Now().UnixMilli() < f.distrusted.Load() {
		limit = distrust
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	result, err := f.apply(ctx, object)
	if errors.Is(err, context.DeadlineExceeded) {
		f.distrusted.Store(time.Now().Add(penalty).UnixMilli())
		return nil, fmt.Errorf("jq expression %q: no result within %s; does it loop forever?", f.source, limit)
	}
	return result, err
}

// apply is Apply with a context as the only limit.
func (f *Filter) apply(ctx context.Context, object map[string]any) (json.RawMessage, error) {
	input, err := jqValue(object)
	if err != nil {
		return nil, fmt.Errorf("jq expression %q: %w", f.source, err)
	}
	var results []any
	for result, err := range f.program.Results(ctx, input) {
		if err != nil {
			return nil, fmt.Errorf("jq expression %q: %w", f.source, err)
		}
		results = append(results, result)
	}
	var result any = results
	switch len(results) {
	case 0:
		return json.RawMessage("null"), nil
	case 1:
		result = results[0]
	}
	text, err := jq.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("jq expression %q: its result: %w", f.source, err)
	}
	return text, nil
}

// jqValue copies a tree with the types that gojq accepts: it panics on others, int64 included.
// Objects come from a shared cache, so nothing is changed in place.
func jqValue(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case nil, bool, string, int, float64, json.Number:
		return v, nil
	case int64:
		return int(v), nil
	case map[string]any:
		copied := make(map[string]any, len(v))
		for key, element := range v {
			if copied[key], err = jqValue(element); err != nil {
				return nil, err
			}
		}
		return copied, nil
	case []any:
		copied := make([]any, len(v))
		for i, element := range v {
			if copied[i], err = jqValue(element); err != nil {
				return nil, err
			}
		}
		return copied, nil
	}
	return nil, fmt.Errorf("the object contains a %T, which is not a JSON value", value)
}
