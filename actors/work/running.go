package work

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// runningHooks are the hooks and enabled scripts that run now, so that one that hangs is reported: it may hold
// up all modules until its time limit ends it (C29). Runs begin and end in their own goroutines.
type runningHooks struct {
	log *slog.Logger
	all sync.Map // of *runningHook
}

// runningHook is one process. The embedded part is not changed once it is stored.
type runningHook struct {
	view.RunningHook
	// report is the timer of the next line. The goroutine of a timer replaces it, while the run may
	// stop it.
	report atomic.Pointer[time.Timer]
}

// begin notes a hook whose process is about to start; the caller calls ended when it is gone. The
// log has a line after view.HangsAfter, and then each time the run has taken twice as long.
func (r *runningHooks) begin(h view.RunningHook) (ended func()) {
	h.Began = time.Now()
	running := &runningHook{RunningHook: h}
	r.all.Store(running, true)
	r.report(running, view.HangsAfter)
	return func() {
		r.all.Delete(running)
		running.report.Load().Stop() // if it goes off at this moment, it finds that the run has ended
	}
}

// report logs that a hook hangs, if it still runs then. A hanging hook is no failure: its time
// limit ends it, if it has one.
func (r *runningHooks) report(h *runningHook, in time.Duration) {
	h.report.Store(time.AfterFunc(in, func() {
		if _, runs := r.all.Load(h); !runs {
			return
		}
		about := []any{"hook", h.Hook, "binding", h.Binding, "runningFor", time.Since(h.Began).Round(time.Second).String(), "limit", cmp.Or(h.Limit, "none")}
		if h.Module != "" {
			about = append(about, "module", h.Module)
		}
		r.log.Warn("hook hangs", about...)
		r.report(h, time.Since(h.Began)) // when it has taken twice as long
	}))
}

// Hanging lists the hooks and enabled scripts that have been running for a minute or more, the longest first.
func (s *Shared) Hanging() []view.RunningHook {
	var out []view.RunningHook
	for key := range s.running.all.Range {
		if h, _ := key.(*runningHook); h.Hangs() {
			out = append(out, h.RunningHook)
		}
	}
	slices.SortFunc(out, func(a, b view.RunningHook) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Hook, b.Hook), cmp.Compare(a.Binding, b.Binding))
	})
	return out
}

// hookBegins notes a hook, or an enabled script, which has no configuration. The limit is only
// shown; package hooks enforces it.
func (j Job) hookBegins(hook hooks.Hook, binding string) (ended func()) {
	limit := j.HookTimeout
	if hook.Config != nil {
		limit = cmp.Or(hook.Config.Settings.Timeout, limit)
	}
	return j.running.begin(view.RunningHook{Module: messages.ModuleOf(j.Owner), Hook: hook.Name, Binding: binding, Limit: limitText(limit)})
}

// limitText is empty for no limit, which pages leave out.
func limitText(limit time.Duration) string {
	if limit <= 0 {
		return ""
	}
	return limit.String()
}
