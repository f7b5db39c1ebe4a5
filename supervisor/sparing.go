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
	return sparing{Handler: next, memory: &memory{seen: map[string]*repetition{}}}
}

type sparing struct {
	slog.Handler
	memory *memory // shared by all handlers that were made of one
	key    string  // what With has given
	failed bool    // an error is among it
}

// WithAttrs implements slog.Handler.
func (h sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		h = h.with(a)
	}
	return h
}

// WithGroup implements slog.Handler.
func (h sparing) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}

func (h sparing) with(a slog.Attr) sparing {
	value := a.Value.Resolve().String()
	switch a.Key {
	case "attempt", "in", "stack":
		return h
	case "err":
		h.failed = true
		value = strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) { // errors may differ in a time, a port or a count
				return -1
			}
			return r
		}, value)
	}
	h.key += "\x00" + a.Key + "=" + value
	return h
}

// Handle implements slog.Handler.
func (h sparing) Handle(ctx context.Context, r slog.Record) error {
	about := h
	r.Attrs(func(a slog.Attr) bool {
		about = about.with(a)
		return true
	})
	if !about.failed || r.Level < slog.LevelWarn || h.Enabled(ctx, slog.LevelDebug) {
		return h.Handler.Handle(ctx, r)
	}
	leftOut, pass := h.memory.repeats(r.Level.String()+r.Message+about.key, r.Time)
	if !pass {
		return nil
	}
	if leftOut > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("leftOut", leftOut))
	}
	return h.Handler.Handle(ctx, r)
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
}

// repeats notes a failure and reports whether to write it, and how many were not before.
func (m *memory) repeats(key string, now time.Time) (leftOut int, pass bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	over := func(_ string, r *repetition) bool { return now.Sub(r.last) > spareQuiet }
	r := m.seen[key]
	if r == nil {
		if r = (&repetition{}); len(m.seen) >= spareKept {
			maps.DeleteFunc(m.seen, over)
		}
		if len(m.seen) < spareKept {
			m.seen[key] = r
		}
	}
	again := !over(key, r)
	if r.last = now; again && now.Sub(r.written) < r.distance {
		r.leftOut++
		return 0, false
	}
	if r.distance = min(2*r.distance, spareMost); !again {
		r.distance = spareFirst
	}
	leftOut, r.leftOut, r.written = r.leftOut, 0, now
	return leftOut, true
}
