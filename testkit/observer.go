package testkit

import (
	"cmp"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/scenario"
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

// NewTrace begins a trace now: each line has its virtual time.
func NewTrace() *scenario.Trace {
	began := time.Now()
	return &scenario.Trace{Stamp: func(line string) string {
		if strings.HasPrefix(line, heading) || strings.HasPrefix(line, comment) {
			return line
		}
		return fmt.Sprintf("%6s  %s", time.Since(began).Round(time.Millisecond), versions.ReplaceAllString(line, "resourceVersion N"))
	}}
}

// These begin lines of a script that are steps, and comments; a trace has both as they are.
const heading, comment = "> ", "#"

// versions are numbers that would change the trace with each write before them, whatever for: the API server in memory
// counts writes.
var versions = regexp.MustCompile(`resourceVersion \d+`)

// isMilestone reports whether a trace shows an Info message. The others say what hooks and Helm do,
// which the trace has from themselves.
func isMilestone(message string) bool {
	switch message {
	case "converged", "converged, but a purge is held back", "a purge is confirmed",
		"modules discovered", "config values changed", "module is deleted", "module starts again from the beginning",
		"reload of all modules starts again", "release without a module directory is purged",
		"releases that were not installed by an addon-operator are left alone":
		return true
	}
	return false
}

// logLine shows warnings, errors and a few milestones of Info and above. What is a bug in any script, such as a
// message without a handler, becomes a problem. That depends on the texts of the log, because nothing else reports it.
func (o *observer) logLine(r slog.Record, attrs []slog.Attr) string {
	if r.Level < slog.LevelWarn && !isMilestone(r.Message) {
		return ""
	}
	line := r.Message
	for _, a := range attrs {
		switch a.Key {
		case "took", "stack", "revision", "attempt-id": // differ from run to run, or mean nothing here
			continue
		}
		line += fmt.Sprintf(" %s=%s", a.Key, firstLine(a.Value.String()))
	}
	if r.Level >= slog.LevelWarn {
		line = r.Level.String() + " " + line
	}
	if strings.HasPrefix(r.Message, "bug: ") {
		o.problem("%s", line)
	}
	return line
}

// firstLine keeps a trace to one line an event; … says that there is more.
func firstLine(s string) string {
	line, _, more := strings.Cut(s, "\n")
	if more {
		line += " …"
	}
	return line
}

// messageCount counts and traces the messages between actors during one step. Only turns and the
// goroutine of the play touch it, of which one runs at a time.
type messageCount struct {
	trace *scenario.Trace
	on    bool
	n     int
}

// count traces a message, unless the library has sent it: all of ours are values, those of the
// library pointers. A question counts its answer, too, which no actor receives; its line has the
// number of the question.
func (c *messageCount) count(receiver *actor.PID, message any, asked bool) {
	t := reflect.TypeOf(message)
	if !c.on || strings.HasSuffix(t.PkgPath(), "/actor") || t.Kind() == reflect.Pointer {
		return
	}
	_, path, _ := strings.Cut(receiver.Id, "/")
	c.n++
	line := fmt.Sprintf("%s to %s", t.Name(), path)
	if path == "" {
		line = t.Name() + " to the root"
	}
	if asked {
		c.n++
		line += ", answered"
	}
	c.trace.Add("%3d %s", c.n, line)
}
