package scenario

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Trace collects what happens in a play, in lines. Any goroutine may add one. Stamp is set before
// the first line.
type Trace struct {
	// Stamp completes a line, such as with the time. It may be nil.
	Stamp func(line string) string
	// Dead: the operator was killed. Its remaining goroutines add no lines.
	Dead atomic.Bool

	mu    sync.Mutex
	lines []string
}

// Add appends a line.
func (t *Trace) Add(format string, args ...any) { t.AddLine(fmt.Sprintf(format, args...)) }

// AddLine appends a line as it is, but for the stamp.
func (t *Trace) AddLine(line string) {
	if t.Dead.Load() {
		return
	}
	if t.Stamp != nil {
		line = t.Stamp(line)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

// String is the whole trace so far.
func (t *Trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// Logger returns a logger whose records of Info and above become lines. Format makes a line
// of a record and all its attributes; "" is none.
func (t *Trace) Logger(format func(r slog.Record, attrs []slog.Attr) string) *slog.Logger {
	return slog.New(handler{trace: t, format: format})
}

type handler struct {
	trace  *Trace
	format func(slog.Record, []slog.Attr) string
	attrs  []slog.Attr
}

// Enabled implements slog.Handler.
func (handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (h handler) Handle(_ context.Context, r slog.Record) error {
	all := slices.Clip(h.attrs) // other records of this logger append to it, too
	r.Attrs(func(a slog.Attr) bool {
		all = append(all, a)
		return true
	})
	if line := h.format(r, all); line != "" {
		h.trace.AddLine(line)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = slices.Concat(h.attrs, attrs)
	return h
}

// WithGroup implements slog.Handler; the operator uses no groups.
func (h handler) WithGroup(string) slog.Handler { return h }

// logLine is a line of the log as authors of modules see it.
func logLine(r slog.Record, attrs []slog.Attr) string {
	line := r.Level.String() + " " + r.Message
	for _, a := range attrs {
		switch a.Key {
		case "took", "task": // differ from run to run and mean nothing here
		default:
			line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		}
	}
	return line
}
