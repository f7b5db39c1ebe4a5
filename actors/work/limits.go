package work

import (
	"sync"

	"golang.org/x/time/rate"

	"addon-operator/hooks"
)

// Limits are the token buckets of an owner's hooks by their names (C10). They live as long as the
// owner, so that a bucket does not fill up when a run is tried again; runs share them.
type Limits struct{ hooks sync.Map }

// of returns the token bucket of a hook: one token each executionMinInterval, at most
// executionBurst of them; nil when the hook sets no limit. A hook that was exchanged keeps its
// bucket, with the new limits.
func (l *Limits) of(hook hooks.Hook) *rate.Limiter {
	s := hook.Config.Settings
	if s.ExecutionMinInterval <= 0 {
		return nil
	}
	limit, burst := rate.Every(s.ExecutionMinInterval), max(1, s.ExecutionBurst)
	known, _ := l.hooks.LoadOrStore(hook.Name, rate.NewLimiter(limit, burst))
	limiter, _ := known.(*rate.Limiter)
	if limiter.Limit() != limit || limiter.Burst() != burst { // the hook was loaded again with other limits
		limiter.SetLimit(limit)
		limiter.SetBurst(burst)
	}
	return limiter
}
