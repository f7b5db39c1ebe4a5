package supervisor

import (
	"bytes"
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
	m := &memory{seen: map[string]repetition{}}
	return sparing{next, slog.NewTextHandler(&m.key, &slog.HandlerOptions{ReplaceAttr: same}), m}
}

type sparing struct {
	slog.Handler
	text   slog.Handler // writes into memory.key what two records of a failure have in common
	memory *memory      // shared by all handlers that were made of one, or each With would begin to count again
}

// WithAttrs implements slog.Handler.
func (h sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return sparing{h.Handler.WithAttrs(attrs), h.text.WithAttrs(attrs), h.memory}
}

// same leaves out what may differ: errors may in a time, a port or a count.
func same(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case slog.TimeKey, "attempt", "in", "stack":
		return slog.Attr{}
	case "err":
		a.Value = slog.StringValue(strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return -1
			}
			return r
		}, a.Value.String()))
	}
	return a
}

// Handle implements slog.Handler.
func (h sparing) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && !h.Enabled(ctx, slog.LevelDebug) {
		leftOut, pass := h.memory.repeats(ctx, h.text, r)
		if !pass {
			return nil
		}
		if leftOut > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("leftOut", leftOut))
		}
	}
	return h.Handler.Handle(ctx, r)
}

type memory struct {
	mu   sync.Mutex
	key  bytes.Buffer
	seen map[string]repetition
}

// repetition is one failure that came more than once, or may do so.
type repetition struct {
	last, next time.Time     // when it came, and before when it is not written again
	distance   time.Duration // from the last that was written to next
	leftOut    int
}

// repeats notes a failure and reports whether to write it, and how many were not before.
func (m *memory) repeats(ctx context.Context, text slog.Handler, record slog.Record) (leftOut int, pass bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.key.Reset()
	_ = text.Handle(ctx, record) // a buffer takes everything
	key, now := m.key.String(), record.Time
	if !strings.Contains(key, " err=") {
		return 0, true
	}
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
