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

// witness sees every hook and every Helm action begin and end. It reports what must never be at the
// same time, and keeps what happened for the models of tests. It is called from runs, from the log,
// and from steps; its lock guards all fields but oneByOne, which changes only before a start and in
// steps.
type witness struct {
	mu       sync.Mutex
	busy     map[string]string // what is in progress, by what only one may hold
	events   []event           // in the order of their ends
	contexts map[string]int    // hook runs by hook and binding context
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

func newWitness() *witness {
	return &witness{busy: map[string]string{}, contexts: map[string]int{}, forbidden: map[string]time.Time{}, transitions: map[string]bool{}, oneByOne: true}
}

// enter notes that something begins which holds the given things alone: "queue main", "module dns",
// "release dns", "discovery". If another one holds one of them, that is a problem in any script.
// The function it returns notes the end.
func (w *witness) enter(what string, alone ...string) (leave func(event)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, thing := range alone {
		if other, taken := w.busy[thing]; taken {
			w.problems = append(w.problems, fmt.Sprintf("%s began while %s was in progress: only one may have %s", what, other, thing))
		}
		w.busy[thing] = what
	}
	began := len(w.events)
	return func(e event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, thing := range alone {
			delete(w.busy, thing)
		}
		e.began = began
		w.events = append(w.events, e)
	}
}

// note remembers a step of the script.
func (w *witness) note(what, module string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, event{module: module, what: what, ok: true})
}

// hookRun is enter for a run of a hook; contexts are its binding contexts, described. A run holds
// its queue, but main only where nothing goes past it; a run for an order binding also holds its
// module, as Helm actions of the module do, because it is a step of the module run.
func (w *witness) hookRun(ctx context.Context, run hooks.Run, contexts []string) (leave func(ok bool)) {
	module, queue, task := cmp.Or(labelOf(run, "module"), messages.GlobalHooks), labelOf(run, "queue"), taskOf(run)
	var alone []string
	if queue != messages.MainQueue || w.oneByOne {
		alone = append(alone, "queue "+queue)
	}
	first := run.Contexts[0]
	if module != messages.GlobalHooks && isOrderBinding(first) {
		alone = append(alone, "module "+module)
	}
	w.mu.Lock()
	for _, part := range contexts {
		w.contexts[run.Hook.Name+": "+part]++
	}
	w.mu.Unlock()
	end := w.enter("hook "+run.Hook.Name+" "+first.Binding, alone...)
	if isOrderBinding(first) {
		task = "" // a step of a module run, which may have to be done again
	}
	return func(ok bool) {
		end(event{module: module, what: first.Binding, ok: ok, task: task})
		w.mu.Lock()
		defer w.mu.Unlock()
		w.runs = append(w.runs, hookRun{ctx: ctx, hook: run.Hook.Name, ok: ok, task: taskOf(run), at: time.Now()})
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
func (w *witness) ran() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]string, 0, len(w.contexts))
	for _, name := range slices.Sorted(maps.Keys(w.contexts)) {
		list = append(list, fmt.Sprintf("%s (%d times)", name, w.contexts[name]))
	}
	return list
}

// phaseChanges notes that an actor goes from one phase to another. The attributes of the record are
// both phases, in this order.
func (w *witness) phaseChanges(actor string, r slog.Record) {
	var phases []string
	r.Attrs(func(a slog.Attr) bool {
		phases = append(phases, a.Value.String())
		return true
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.transitions[actor+": "+strings.Join(phases, " to ")] = true
}
