package testkit

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// observer records when hooks and Helm actions begin and end. It reports two that must not overlap, and keeps
// the events for the models of tests. It is called from runs, from the log, and from steps; its lock guards all
// fields but oneByOne, which changes only before a start and in steps.
type observer struct {
	mu       sync.Mutex
	busy     map[string]string // what is in progress, by what only one may hold
	events   []event           // in the order of their ends
	contexts map[string]int    // hook runs by hook and binding context
	latest   []string          // the same in their order, since Live.Runs
	runs     []hookRun         // those that have ended
	problems []string
	// transitions are the changes of phases of all actors, as "module: ready to running".
	transitions map[string]bool
	// forbidden are the kinds that the operator may not read, as the step has them, and since when.
	forbidden map[string]time.Time
	// oneByOne: nothing runs in parallel with the main queue, so its tasks exclude each other.
	oneByOne bool
}

// event is the end of a hook run or a Helm action, or something that a step did.
type event struct {
	module string // or global-hooks
	what   string // a binding, "install", "uninstall", or the verb of a step
	ok     bool
	// task is the ID of a task that does nothing but run this hook once.
	task string
	// began is how many events there were when it began.
	began int
}

func newObserver() *observer {
	return &observer{busy: map[string]string{}, contexts: map[string]int{}, forbidden: map[string]time.Time{}, transitions: map[string]bool{}, oneByOne: true}
}

// enter notes the begin of an action that needs the given things exclusively: "queue main", "module dns",
// "release dns", "discovery". If another action holds one of them, that is a problem in any script.
// The returned function notes the end.
func (o *observer) enter(what string, alone ...string) (leave func(event)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, thing := range alone {
		if other, taken := o.busy[thing]; taken {
			o.problems = append(o.problems, fmt.Sprintf("%s began while %s was in progress: only one may have %s", what, other, thing))
		}
		o.busy[thing] = what
	}
	began := len(o.events)
	return func(e event) {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, thing := range alone {
			delete(o.busy, thing)
		}
		e.began = began
		o.events = append(o.events, e)
	}
}

// note remembers a step of the script.
func (o *observer) note(what, module string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, event{module: module, what: what, ok: true})
}

// hookRun is enter for a run of a hook; contexts are its binding contexts, described. A run holds
// its hook, and its queue, but main only where nothing goes past it; a run for an order binding also holds its
// module, as Helm actions of the module do, because it is a step of the module run.
func (o *observer) hookRun(ctx context.Context, run hooks.Run, contexts []string) (leave func(ok bool)) {
	module, queue, task := cmp.Or(labelOf(run, "module"), messages.GlobalHooks), labelOf(run, "queue"), taskOf(run)
	name := run.Hook.Name
	if module != messages.GlobalHooks {
		_, name, _ = strings.Cut(name, "/") // the directory of the module may be renamed during a run
	}
	alone := []string{"hook " + module + "/" + name} // whatever queues they are in
	if queue != messages.MainQueue || o.oneByOne {
		alone = append(alone, "queue "+queue)
	}
	first := run.Contexts[0]
	if module != messages.GlobalHooks && isOrderBinding(first) {
		alone = append(alone, "module "+module)
	}
	o.mu.Lock()
	for _, part := range contexts {
		o.contexts[run.Hook.Name+": "+part]++
		o.latest = append(o.latest, run.Hook.Name+": "+part)
	}
	o.mu.Unlock()
	end := o.enter("hook "+run.Hook.Name+" "+first.Binding, alone...)
	if isOrderBinding(first) {
		task = "" // a step of a module run, which may have to be done again
	}
	return func(ok bool) {
		end(event{module: module, what: first.Binding, ok: ok, task: task})
		o.mu.Lock()
		defer o.mu.Unlock()
		o.runs = append(o.runs, hookRun{ctx: ctx, hook: run.Hook.Name, ok: ok, task: taskOf(run), at: time.Now()})
	}
}

// taskOf is the ID of the task that a hook runs for.
func taskOf(run hooks.Run) string { return labelOf(run, "task") }

// labelOf is a label that the operator gives a run for its log: module, queue or task.
func labelOf(run hooks.Run, key string) string {
	for _, label := range run.Labels {
		if label.Key == key {
			return label.Value.String()
		}
	}
	return ""
}

// isOrderBinding reports whether a run is a step of its module's run or delete, as v1
// hooks have them: they have no type.
func isOrderBinding(c hooks.Context) bool { return c.Type == "" && c.Resource == nil }

// ran lists the hook runs by context, sorted, with how often they were.
func (o *observer) ran() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := make([]string, 0, len(o.contexts))
	for _, name := range slices.Sorted(maps.Keys(o.contexts)) {
		list = append(list, fmt.Sprintf("%s (%d times)", name, o.contexts[name]))
	}
	return list
}

// phaseChanges notes a change of the phase of an actor. The attributes of the record are the old and the
// new phase.
func (o *observer) phaseChanges(actor string, r slog.Record) {
	var phases []string
	r.Attrs(func(a slog.Attr) bool {
		phases = append(phases, a.Value.String())
		return true
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.transitions[actor+": "+strings.Join(phases, " to ")] = true
}
