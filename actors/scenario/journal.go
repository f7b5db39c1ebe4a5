package scenario

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// journal is the log of a scenario, in lines.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}

// handler writes log records into a journal.
type handler struct {
	journal *journal
	attrs   string
}

// Enabled implements slog.Handler.
func (h handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (h handler) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message + h.attrs
	r.Attrs(func(a slog.Attr) bool {
		line += attribute(a)
		return true
	})
	h.journal.add(line)
	return nil
}

func attribute(a slog.Attr) string {
	switch a.Key {
	case "took", "task": // differ from run to run and mean nothing here
		return ""
	}
	return fmt.Sprintf(" %s=%v", a.Key, a.Value)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.attrs += attribute(a)
	}
	return h
}

// WithGroup implements slog.Handler; the operator uses no groups.
func (h handler) WithGroup(string) slog.Handler { return h }
