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

// repeats paces upgrades that come of nothing but chance.
type repeats struct {
	mu     sync.Mutex
	byName map[string]repeat
}

type repeat struct {
	inputs string
	after  time.Duration
	next   time.Time
}

// wait returns how long the next upgrade of a release must wait; 0 lets it begin, and the one after
// it wait longer. Other inputs begin again. It only looks when nothing is written.
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
