package work

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
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

// progressPause is how often the log says how far long work is.
const progressPause = 10 * time.Second

// progress shows how far long work is, and logs it now and then.
func (j Job) progress(run *supervisor.Run, what string) func(done, total int) {
	var mu sync.Mutex
	told, most := time.Now(), 0
	return func(done, total int) {
		mu.Lock()
		defer mu.Unlock()
		if done < most { // another goroutine was faster
			return
		}
		most = done
		run.Progress(fmt.Sprintf("%s, %d of %d", what, done, total))
		if time.Since(told) >= progressPause && done < total {
			told = time.Now()
			j.Log.Info(what, "done", done, "total", total)
		}
	}
}

// installing is the context for the installation of CRDs.
func (j Job) installing(run *supervisor.Run) context.Context {
	return run.Context()
}
