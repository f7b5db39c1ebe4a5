package supervisor

import (
	"context"
	"log/slog"
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
	// spareKept bounds how many failures are remembered; then all are forgotten.
	spareKept = 1000
)

// Sparing returns a handler that passes a failure on when it happens for the first time, and a
// repeated one at growing intervals, with the number of records that were left out in between
// (leftOut). A failure is a warning or an error with the attribute err. Two are the same if message
// and attributes are equal, except for the number of the attempt, the time until the next one, and
// digits in the error. Nothing is left out while next writes debug records; the level of next may
// change at any time.
func Sparing(next slog.Handler) slog.Handler {
	return sparing{Handler: next, memory: &memory{seen: map[string]repetition{}}}
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
	seen map[string]repetition
}

// repetition is one failure that came more than once, or may do so.
type repetition struct {
	last, next time.Time     // when it came, and before when it is not written again
	distance   time.Duration // from the last that was written to next
	leftOut    int
}

// repeats notes a failure and reports whether to write it, and how many were not before.
func (m *memory) repeats(key string, now time.Time) (leftOut int, pass bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.seen[key]
	if now.Sub(r.last) > spareQuiet {
		r.next, r.distance = now, 0
	}
	if len(m.seen) >= spareKept {
		clear(m.seen) // each is written once more
	}
	r.last = now
	if pass = !now.Before(r.next); pass {
		r.distance = min(max(2*r.distance, spareFirst), spareMost)
		leftOut, r.leftOut, r.next = r.leftOut, 0, now.Add(r.distance)
	} else {
		r.leftOut++
	}
	m.seen[key] = r
	return leftOut, pass
}
