package shared

import (
	"maps"
	"time"

	"addon-operator/supervisor"
)

// Told decides when a repeated event is logged: at once, and then at intervals that double.
// Kubernetes Events are not limited here but by the recorder (package kube). Several actors share it,
// so it synchronises itself.
type Told struct {
	known supervisor.Shared[map[string]telling]
}

// telling is what is known of an event: when it is reported next, when it happened last, and the
// present interval between reports.
type telling struct {
	next, last time.Time
	distance   time.Duration
}

const (
	tellFirst = time.Minute // until it is reported again
	tellMost  = time.Hour
	// tellQuiet is after how long without the event it counts as new again. It is longer than any
	// delay of a loop.
	tellQuiet = 10 * time.Minute
	// tellKept bounds the memory; beyond it each event is logged.
	tellKept = 1000
)

// Due reports whether to report this event, which happened once more.
func (t *Told) Due(what string, now time.Time) (due bool) {
	over := func(_ string, k telling) bool { return now.Sub(k.last) > tellQuiet }
	t.known.Change(func(before map[string]telling) map[string]telling {
		known := map[string]telling{}
		maps.Copy(known, before)
		k, ok := known[what]
		if !ok && len(known) >= tellKept {
			// There is no room even without those that are over. To log too much is better than to
			// hide an event.
			if maps.DeleteFunc(known, over); len(known) >= tellKept {
				due = true
				return known
			}
		}
		due = !ok || over(what, k) || !now.Before(k.next)
		switch {
		case !ok || over(what, k):
			k.distance = tellFirst
			k.next = now.Add(k.distance)
		case due:
			k.distance = min(2*k.distance, tellMost)
			k.next = now.Add(k.distance)
		}
		k.last = now
		known[what] = k
		return known
	})
	return due
}
