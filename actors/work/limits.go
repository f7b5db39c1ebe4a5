package work

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// Limits are what limits the runs of an owner's hooks, by the names of the hooks: token buckets (C10), and who runs
// now. They live as long as the owner: a bucket does not fill up when a run is tried again, and a run of a module
// that was disabled is over before the hook runs again. Runs share them.
type Limits struct{ buckets, runners sync.Map }

// of returns the token bucket of a hook: one token each executionMinInterval, at most
// executionBurst of them; nil when the hook sets no limit. A hook that was loaded again keeps its
// bucket, with the new limits.
func (l *Limits) of(hook hooks.Hook) *rate.Limiter {
	s := hook.Config.Settings
	if s.ExecutionMinInterval <= 0 {
		return nil
	}
	limit, burst := rate.Every(s.ExecutionMinInterval), max(1, s.ExecutionBurst)
	known, _ := l.buckets.LoadOrStore(hook.Name, rate.NewLimiter(limit, burst))
	limiter, _ := known.(*rate.Limiter)
	if limiter.Limit() != limit || limiter.Burst() != burst { // the hook was loaded again with other limits
		limiter.SetLimit(limit)
		limiter.SetBurst(burst)
	}
	return limiter
}

// runner is taken by the run of a hook that is in progress.
type runner struct {
	taken   chan struct{} // has an element while it is; those who send to it are served in the order in which they came
	waiting atomic.Int32
}

// alone does what must not be done by two runs of one hook at the same time, whatever queues they are in (C46): they
// write the same values, objects and files. The snapshots and values that a run shows are taken within, so the run
// that is last has the newest ones.
//
// It cannot deadlock: a run that waits may hold the head of its queue and the release of its module, but the one in
// progress takes neither any more. It asks only monitors and its owner, and these wait for no run.
func (h HookJob) alone(do func() error) error {
	name := h.hook.Name
	if h.job.Owner != messages.GlobalHooks {
		_, name, _ = strings.Cut(name, "/") // the directory of the module may be renamed during a run
	}
	known, _ := h.job.Limits.runners.LoadOrStore(name, &runner{taken: make(chan struct{}, 1)})
	r, _ := known.(*runner)
	select {
	case r.taken <- struct{}{}:
	default:
		if err := h.awaitRunner(r); err != nil {
			return err
		}
	}
	defer func() {
		if r.waiting.Load() > 0 { // in tests, let the other one go on first
			defer h.run.Turn()()
		}
		<-r.taken
	}()
	return do()
}

// awaitRunner waits until it is the turn of this run. Others may have changed the values meanwhile.
func (h HookJob) awaitRunner(r *runner) error {
	h.run.Step("%s: waits until another run of it has ended", h.hook.Name)
	r.waiting.Add(1)
	defer r.waiting.Add(-1)
	select {
	case r.taken <- struct{}{}:
	case <-h.run.Context().Done():
		return fmt.Errorf("hook %s: wait until another run of it has ended: %w", h.hook.Name, h.run.Context().Err())
	}
	if err := h.job.ask(h.run, HandOver{}); err != nil {
		<-r.taken
		return err
	}
	return nil
}
