package actors

import (
	"maps"
	"sync"
	"time"
)

// told decides when a repeated event is logged: at once, and then at
// distances that double. Events are spared by who records them.
type told struct {
	mu    sync.Mutex
	known map[string]telling
}

type telling struct {
	next, last time.Time
	distance   time.Duration
}

const (
	tellFirst = time.Minute // until it is reported again
	tellMost  = time.Hour
	// tellQuiet without it ends it: it comes as news again. It is longer than any delay of a loop.
	tellQuiet = 10 * time.Minute
	// tellKept bounds the memory; beyond it each event is reported.
	tellKept = 1000
)

func newTold() *told { return &told{known: map[string]telling{}} }

// due reports whether to report this event, which happened once more.
func (t *told) due(what string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	over := func(_ string, k telling) bool { return now.Sub(k.last) > tellQuiet }
	k, ok := t.known[what]
	if !ok && len(t.known) >= tellKept {
		if maps.DeleteFunc(t.known, over); len(t.known) >= tellKept {
			return true
		}
	}
	due := !ok || over(what, k) || !now.Before(k.next)
	switch {
	case !ok || over(what, k):
		k.distance = tellFirst
		k.next = now.Add(k.distance)
	case due:
		k.distance = min(2*k.distance, tellMost)
		k.next = now.Add(k.distance)
	}
	k.last = now
	t.known[what] = k
	return due
}
