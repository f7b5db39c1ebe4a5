package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// Hooks counts runs of hooks.
type Hooks struct {
	bindings       *prometheus.GaugeVec // of modules and of global hooks, whose label module is empty
	module, global hookRuns
	// the old names of the sums over both (X11)
	oldFailed  prometheus.Counter
	oldAllowed prometheus.Counter
}

// hookRuns exist once for hooks of modules and once for global ones: their names are different
// metrics, and those of global hooks have no label module (I2).
type hookRuns struct {
	seconds, user, system    *prometheus.SummaryVec
	rss                      *prometheus.GaugeVec
	failed, allowed, success *prometheus.CounterVec
}

func newHooks(d *declared) Hooks {
	return Hooks{
		bindings:   d.gauge("binding_count", "Bindings of a hook.", "module", "hook"),
		module:     newHookRuns(d, "module_hook_", "module", "hook", "binding", "queue", "activation"),
		global:     newHookRuns(d, "global_hook_", "hook", "binding", "queue", "activation"),
		oldFailed:  d.alias("hook_errors", d.prefix+"module_hook_errors_total and "+d.prefix+"global_hook_errors_total"),
		oldAllowed: d.alias("hook_allowed_errors", d.prefix+"module_hook_allowed_errors_total and "+d.prefix+"global_hook_allowed_errors_total"),
	}
}

// newHookRuns declares the metrics of one kind of hooks. They are most of the page, since there are
// many hooks with several bindings each. labels must end with hook, binding,
// queue and activation, as Ended gives them.
func newHookRuns(d *declared, kind string, labels ...string) hookRuns {
	return hookRuns{
		seconds: d.summary(kind+"run_seconds", "Duration of hook runs, including failed ones.", labels...),
		user:    d.summary(kind+"run_user_cpu_seconds", "User CPU time of hook runs.", labels...),
		system:  d.summary(kind+"run_sys_cpu_seconds", "System CPU time of hook runs.", labels...),
		rss:     d.gauge(kind+"run_max_rss_bytes", "Peak memory of the last run, if above that of the operator itself: the kernel does not know a smaller one.", labels...),
		failed:  d.counter(kind+"errors_total", "Failed hook runs: the hook failed, its result was refused or could not be applied.", labels...),
		allowed: d.counter(kind+"allowed_errors_total", "Failed hook runs whose failure is allowed; they are not counted as other errors.", labels...),
		success: d.counter(kind+"success_total", "Hook runs whose result was applied.", labels...),
	}
}

// Loaded shows the bindings of hooks; module is empty for global ones. Bindings of all types count:
// a hook that binds beforeHelm and two crontabs has three.
func (h Hooks) Loaded(module string, found []hooks.Hook) {
	for _, hook := range found {
		count := len(hook.Config.Orders) + len(hook.Config.Schedules) + len(hook.Config.Kubernetes)
		h.bindings.WithLabelValues(module, hook.Name).Set(float64(count))
	}
}

// Ended counts a run of a hook by its outcome, nil for success, as exactly one of success, error
// and allowed error (I3); every run is timed. binding is the name of the first one that caused the
// run, or the type of an order binding. The caller leaves out runs that were ended with their
// module or the operator.
func (h Hooks) Ended(owner, hook, binding string, t messages.Task, u hooks.Usage, outcome error) {
	runs, labels := h.global, []string{hook, binding, t.Queue, activation(t.Cause)}
	if owner != messages.GlobalHooks {
		runs, labels = h.module, append([]string{owner}, labels...)
	}
	switch {
	case outcome == nil:
		runs.success.WithLabelValues(labels...).Inc()
	case t.AllowFailure:
		runs.allowed.WithLabelValues(labels...).Inc()
		h.oldAllowed.Inc()
	default:
		runs.failed.WithLabelValues(labels...).Inc()
		h.oldFailed.Inc()
	}
	runs.seconds.WithLabelValues(labels...).Observe(u.Wall.Seconds())
	runs.user.WithLabelValues(labels...).Observe(u.User.Seconds())
	runs.system.WithLabelValues(labels...).Observe(u.System.Seconds())
	if u.MaxRSS > 0 {
		runs.rss.WithLabelValues(labels...).Set(float64(u.MaxRSS))
	} else { // it is not known, which is not the same as no memory
		runs.rss.DeleteLabelValues(labels...)
	}
}
