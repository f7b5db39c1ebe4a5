package testkit

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// observer sees when hooks and Helm actions begin and end, and reports two that must not overlap. It is called from
// runs, from the log, and from steps; its lock guards all fields but oneByOne, which changes only before a start and
// in steps.
type observer struct {
	mu       sync.Mutex
	busy     map[string]string // what is in progress, by what only one may hold
	problems []string
	// oneByOne: nothing runs in parallel with the main queue, so its tasks exclude each other.
	oneByOne bool
}

func newObserver() *observer {
	return &observer{busy: map[string]string{}, oneByOne: true}
}

// enter notes the begin of an action that needs the given things exclusively: "queue main", "module dns",
// "release dns", "discovery". If another action holds one of them, that is a problem in any script.
// The returned function notes the end.
func (o *observer) enter(what string, alone ...string) (leave func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, thing := range alone {
		if other, taken := o.busy[thing]; taken {
			o.problems = append(o.problems, fmt.Sprintf("%s began while %s was in progress: only one may have %s", what, other, thing))
		}
		o.busy[thing] = what
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, thing := range alone {
			delete(o.busy, thing)
		}
	}
}

// problem notes what must not be in any script.
func (o *observer) problem(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.problems = append(o.problems, fmt.Sprintf(format, args...))
}

// hookRun is enter for a run of a hook. A run holds
// its hook, and its queue; a run for an order binding also holds its
// module, as Helm actions of the module do, because it is a step of the module run.
func (o *observer) hookRun(run hooks.Run) (leave func()) {
	module, queue := cmp.Or(labelOf(run, "module"), messages.GlobalHooks), labelOf(run, "queue")
	name, first := run.Hook.Name, run.Contexts[0]
	if module != messages.GlobalHooks {
		_, name, _ = strings.Cut(name, "/") // the directory of the module may be renamed during a run
	}
	alone := []string{"hook " + module + "/" + name} // whatever queues they are in
	if queue != messages.MainQueue || o.oneByOne {
		alone = append(alone, "queue "+queue)
	}
	// As v1 hooks have them, contexts of order bindings have no type.
	if module != messages.GlobalHooks && first.Type == "" && first.Resource == nil {
		alone = append(alone, "module "+module)
	}
	return o.enter("hook "+run.Hook.Name+" "+first.Binding, alone...)
}

// labelOf is a label that the operator gives a run for its log: module, queue or task.
func labelOf(run hooks.Run, key string) string {
	for _, label := range run.Labels {
		if label.Key == key {
			return label.Value.String()
		}
	}
	return ""
}
