package helm

import (
	"sync"
	"time"
)

// The time between two upgrades of a release that no input asks for.
const (
	firstRepeat   = 5 * time.Second
	longestRepeat = 30 * time.Second
)

// repeats paces upgrades of charts that render differently each time, when only what lookup finds
// has changed (H6): each upgrade may itself change what is found, and so cause the next one. A
// restart of the operator begins with the first pause again.
type repeats struct {
	mu     sync.Mutex
	byName map[string]repeat
}

// repeat is the last upgrade of a release that was allowed.
type repeat struct {
	inputs string        // other ones end the series
	after  time.Duration // the pause after it
	next   time.Time     // when that is over
}

// wait returns how long the next upgrade of a release must wait; 0 allows it and, if begins is set,
// doubles the pause that follows. begins is false in a dry run, which changes nothing.
func (r *repeats) wait(release, inputs string, now time.Time, begins bool) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.byName[release]
	if ok && known.inputs == inputs && now.Before(known.next) {
		return known.next.Sub(now)
	}
	if !begins {
		return 0
	}
	after := firstRepeat
	if ok && known.inputs == inputs {
		after = min(2*known.after, longestRepeat)
	}
	if r.byName == nil {
		r.byName = map[string]repeat{}
	}
	r.byName[release] = repeat{inputs: inputs, after: after, next: now.Add(after)}
	return 0
}

func (r *repeats) forget(release string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byName, release)
}
