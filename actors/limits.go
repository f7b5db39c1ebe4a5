package actors

import (
	"sync"

	"golang.org/x/time/rate"

	"addon-operator/hooks"
)

// limits are the token buckets of an owner's hooks (C10). They live as long as the
// owner's state, so that a bucket does not fill up by a restart of an actor; runs share
// them, hence the lock.
type limits struct {
	mu    sync.Mutex
	hooks map[string]*rate.Limiter
}

// of returns the bucket of a hook: a token each executionMinInterval, executionBurst of
// them at most; nil when the hook sets no limit.
func (l *limits) of(hook hooks.Hook) *rate.Limiter {
	s := hook.Config.Settings
	if s.ExecutionMinInterval <= 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hooks == nil {
		l.hooks = map[string]*rate.Limiter{}
	}
	limit, burst := rate.Every(s.ExecutionMinInterval), max(1, s.ExecutionBurst)
	limiter := l.hooks[hook.Name]
	if limiter == nil {
		limiter = rate.NewLimiter(limit, burst)
		l.hooks[hook.Name] = limiter
	}
	if limiter.Limit() != limit || limiter.Burst() != burst { // the hook was loaded again with other limits
		limiter.SetLimit(limit)
		limiter.SetBurst(burst)
	}
	return limiter
}
