package testkit

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"addon-operator/messages"
)

// Trace collects what happens, each line with its virtual time.
type Trace struct {
	mu    sync.Mutex
	began time.Time
	lines strings.Builder
	// unhandled are messages that an actor did not know, and other bugs: always a mistake.
	unhandled []string
	// transitions are the phases that actors have gone from and to, as the script has them.
	transitions map[string]bool
	// unordered traces are sorted within an instant.
	unordered bool
	muted     bool
}

// mute leaves out lines until further notice.
func (t *Trace) mute(muted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.muted = muted
}

// NewTrace begins a trace now.
func NewTrace() *Trace { return &Trace{began: time.Now(), transitions: map[string]bool{}} }

// phaseChanges notes that an actor goes from one phase to another.
func (t *Trace) phaseChanges(actor string, r slog.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var phases []string
	r.Attrs(func(a slog.Attr) bool {
		phases = append(phases, a.Value.String())
		return true
	})
	t.transitions[actor+": "+strings.Join(phases, " to ")] = true
}

// Add appends a line.
func (t *Trace) Add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.muted {
		return
	}
	fmt.Fprintf(&t.lines, "%6s  %s\n", time.Since(t.began).Round(time.Millisecond), withoutVersions(fmt.Sprintf(format, args...)))
}

// withoutVersions takes the numbers of versions out of a line: they show how many objects
// there are, which is not what a script is about.
func withoutVersions(line string) string {
	const mark = "resourceVersion "
	before, after, found := strings.Cut(line, mark)
	if !found {
		return line
	}
	return before + mark + "N" + withoutVersions(strings.TrimLeft(after, "0123456789"))
}

// Heading appends a line without a time: a step of the script.
func (t *Trace) Heading(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(&t.lines, "> %s\n", text)
}

// String is the whole trace.
func (t *Trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unordered {
		return sortInstants(t.lines.String())
	}
	return t.lines.String()
}

// sortInstants sorts the lines between two headings that have the same time.
func sortInstants(trace string) string {
	lines := strings.SplitAfter(trace, "\n")
	for from := 0; from < len(lines); {
		to := from + 1
		for to < len(lines) && instant(lines[to]) != "" && instant(lines[to]) == instant(lines[from]) {
			to++
		}
		slices.Sort(lines[from:to])
		from = to
	}
	return strings.Join(lines, "")
}

// instant is the time of a line; a heading, and what continues a line, has none.
func instant(line string) string {
	before, _, ok := strings.Cut(line, "s  ")
	if !ok || strings.HasPrefix(line, ">") {
		return ""
	}
	return before
}

// logger writes warnings, errors and a few milestones into the trace. The witness hears of
// refused results.
func (t *Trace) logger(w *witness) *slog.Logger {
	return slog.New(traceHandler{trace: t, witness: w})
}

// isMilestone reports whether a trace shows an Info message.
func isMilestone(message string) bool {
	switch message {
	case "converged", "converged, but a purge is held back", "a purge is confirmed", "no purge is held back any more",
		"modules discovered", "config values changed", "module is deleted",
		"reload of all modules starts again", "release without a module directory is purged",
		"releases that no addon-operator has installed are left alone":
		return true
	}
	return false
}

type traceHandler struct {
	trace   *Trace
	witness *witness
	attrs   []slog.Attr
}

func (h traceHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelDebug
}

func (h traceHandler) Handle(_ context.Context, r slog.Record) error {
	if actor, ok := strings.CutSuffix(r.Message, " changes phase"); ok {
		h.trace.phaseChanges(actor, r)
	}
	if r.Level < slog.LevelInfo || r.Level < slog.LevelWarn && !isMilestone(r.Message) {
		return nil
	}
	line, module := r.Message, messages.GlobalHooks
	add := func(a slog.Attr) bool {
		if a.Key == "module" {
			module = a.Value.String()
		}
		switch a.Key {
		case "took", "stack", "revision", "attempt-id": // differ from run to run, or mean nothing here
		default:
			line += fmt.Sprintf(" %s=%s", a.Key, firstLine(a.Value.String()))
		}
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	if r.Level >= slog.LevelWarn {
		line = r.Level.String() + " " + line
	}
	if strings.Contains(line, "its result is refused") {
		h.witness.note("refused", module)
	}
	if r.Message == "unhandled message" || strings.HasPrefix(r.Message, "bug: ") {
		h.trace.mu.Lock()
		h.trace.unhandled = append(h.trace.unhandled, line)
		h.trace.mu.Unlock()
	}
	h.trace.Add("%s", line)
	return nil
}

func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.trace, h.witness, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

func (h traceHandler) WithGroup(string) slog.Handler { return h }

func firstLine(s string) string {
	line, _, more := strings.Cut(s, "\n")
	if more {
		line += " …"
	}
	return line
}
