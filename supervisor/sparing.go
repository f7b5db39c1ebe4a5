package supervisor

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Retries never stop, so a failure that repeats is logged at growing intervals.
const (
	spareFirst = 10 * time.Second // until the same failure is logged again; doubled each time
	spareMost  = time.Hour
	// spareQuiet is after how long without the failure it counts as new: the delays between
	// attempts are shorter.
	spareQuiet = 5 * time.Minute
	// spareKept bounds how many failures are remembered; others are all logged.
	spareKept = 1000
)

// Sparing returns a handler that passes a failure on when it happens for the first time, and a
// repeated one at growing intervals, with the number of records that were left out in between
// (leftOut). A failure is a warning or an error with the attribute err. Two are the same if message
// and attributes are equal, except for the number of the attempt, the time until the next one, and
// digits in the error. Nothing is left out while next writes debug records; the level of next may
// change at any time.
func Sparing(next slog.Handler) slog.Handler {
	return sparing{next: next, memory: &memory{seen: map[string]*repetition{}}}
}

type sparing struct {
	next    slog.Handler
	memory  *memory // shared by all handlers that were made of one
	prefix  failure // what With has given
	grouped bool    // attributes of groups are never the error
}

// Enabled implements slog.Handler.
func (h sparing) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		h.prefix = h.prefix.with(a, h.grouped)
	}
	return h
}

// WithGroup implements slog.Handler.
func (h sparing) WithGroup(name string) slog.Handler {
	h.next = h.next.WithGroup(name)
	h.prefix.key += "\x00" + name + "."
	h.grouped = h.grouped || name != ""
	return h
}

// Handle implements slog.Handler.
func (h sparing) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || h.next.Enabled(ctx, slog.LevelDebug) {
		return h.next.Handle(ctx, r)
	}
	f := h.prefix
	f.key += "\x00" + r.Level.String() + "\x00" + r.Message
	r.Attrs(func(a slog.Attr) bool {
		f = f.with(a, h.grouped)
		return true
	})
	if !f.failed {
		return h.next.Handle(ctx, r)
	}
	leftOut, pass := h.memory.repeats(f, r.Time)
	if !pass {
		return nil
	}
	if leftOut > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("leftOut", leftOut))
	}
	return h.next.Handle(ctx, r)
}

// failure is what a record says about one.
type failure struct {
	key     string
	attempt int64 // 0: it does not say
	failed  bool
}

func (f failure) with(a slog.Attr, grouped bool) failure {
	value := a.Value.Resolve()
	switch {
	case grouped:
	case a.Key == "attempt":
		if value.Kind() == slog.KindInt64 {
			f.attempt = value.Int64()
		}
		return f
	case a.Key == "in", a.Key == "stack":
		return f
	case a.Key == "err":
		f.failed = true
		f.key += "\x00err=" + withoutNumbers(value.String())
		return f
	}
	f.key += "\x00" + a.Key + "=" + value.String()
	return f
}

// withoutNumbers makes errors equal that differ in a time, a port or a count only.
func withoutNumbers(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, s)
}

// memory is shared by all handlers that come from one Sparing, or each With would begin to count
// again.
type memory struct {
	mu   sync.Mutex
	seen map[string]*repetition
}

// repetition is one failure that came more than once, or may do so.
type repetition struct {
	last, written time.Time
	distance      time.Duration // from written to the next
	leftOut       int
	attempt       int64
}

// repeats notes a failure and reports whether to write it, and how many were not before.
func (m *memory) repeats(f failure, now time.Time) (leftOut int, pass bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.seen[f.key]
	if r == nil {
		if m.forget(now); len(m.seen) >= spareKept {
			return 0, true
		}
		r = &repetition{}
		m.seen[f.key] = r
	}
	// A task that begins with its first attempt again has succeeded meanwhile, or is another one.
	restarted := r.over(now) || f.attempt < r.attempt
	r.last, r.attempt = now, f.attempt
	switch {
	case restarted:
		r.distance = spareFirst
	case now.Sub(r.written) < r.distance:
		r.leftOut++
		return 0, false
	default:
		r.distance = min(2*r.distance, spareMost)
	}
	leftOut, r.leftOut, r.written = r.leftOut, 0, now
	return leftOut, true
}

func (r *repetition) over(now time.Time) bool { return now.Sub(r.last) > spareQuiet }

// forget removes failures that are over when there are too many.
func (m *memory) forget(now time.Time) {
	if len(m.seen) >= spareKept {
		maps.DeleteFunc(m.seen, func(_ string, r *repetition) bool { return r.over(now) })
	}
}
