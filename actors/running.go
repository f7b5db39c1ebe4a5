package actors

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// runningHooks are the hooks and enabled scripts that run now, so that one that hangs is reported: it may hold
// up all modules until its time limit ends it (C29). Runs begin and end in their own goroutines, hence the lock.
type runningHooks struct {
	log *slog.Logger

	mu  sync.Mutex
	all map[*messages.RunningHook]bool
}

func newRunningHooks(log *slog.Logger) *runningHooks {
	return &runningHooks{log: log, all: map[*messages.RunningHook]bool{}}
}

// begin notes a hook whose process is about to start; the caller calls ended when that is gone. The log has a line after a
// minute, and then each time that the run has taken twice as long.
func (r *runningHooks) begin(h messages.RunningHook) (ended func()) {
	h.Began = time.Now()
	running := &h
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[running] = true
	var timer *time.Timer
	next := messages.HangsAfter
	timer = time.AfterFunc(next, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.all[running] {
			return // it ended at this moment
		}
		about := []any{"hook", h.Hook, "binding", h.Binding, "runningFor", time.Since(h.Began).Round(time.Second).String(), "limit", cmp.Or(h.Limit, "none")}
		if h.Module != "" {
			about = append(about, "module", h.Module)
		}
		r.log.Warn("hook hangs", about...)
		timer.Reset(next)
		next *= 2
	})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		timer.Stop()
		delete(r.all, running)
	}
}

// hanging lists those that run for a minute or more, the longest first.
func (r *runningHooks) hanging() []messages.RunningHook {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []messages.RunningHook
	for h := range r.all {
		if h.Hangs() {
			out = append(out, *h)
		}
	}
	slices.SortFunc(out, func(a, b messages.RunningHook) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Hook, b.Hook), cmp.Compare(a.Binding, b.Binding))
	})
	return out
}

// HangingHooks lists the hooks and enabled scripts that have been running for a minute or more.
func (o *Operator) HangingHooks() []messages.RunningHook { return o.program.running.hanging() }

// hookBegins notes a hook, or an enabled script when it has no configuration.
func (j job) hookBegins(hook hooks.Hook, binding string) (ended func()) {
	limit := j.program.HookTimeout
	if hook.Config != nil {
		limit = cmp.Or(hook.Config.Settings.Timeout, limit)
	}
	return j.program.running.begin(messages.RunningHook{Module: messages.ModuleOf(j.owner), Hook: hook.Name, Binding: binding, Limit: limitText(limit)})
}

func limitText(limit time.Duration) string {
	if limit <= 0 {
		return ""
	}
	return limit.String()
}
