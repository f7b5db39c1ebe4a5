package actors

import (
	"encoding/json"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// Metrics are the figures of the operator, by what they count. Labels that do not apply are empty.
// The fields may be used from any goroutine; New sets them, and nothing replaces them afterwards.
type Metrics struct {
	// Registry has the metrics of the operator alone. A page that shows both registries gathers
	// both.
	Registry *prometheus.Registry
	// HookRegistry has what hooks report (/metrics/hooks). It is a registry of its own because its
	// series come and go with the hooks, and some scrapers read only those.
	HookRegistry *prometheus.Registry

	Hooks    hookMetrics
	Reports  *hookReports
	Bindings bindingMetrics
	Modules  moduleMetrics
	Helm     helmMetrics
	Converge convergeMetrics
	Queues   queueMetrics
	Client   clientMetrics

	declared *declared
	build    *prometheus.GaugeVec
	live     *live
}

// New registers the metrics in registries of their own, so that a process may have several
// operators, as tests do. Their names begin with prefix. The states that a scrape reads are missing
// until [Metrics.Watch] names their sources.
func NewMetrics(prefix string) *Metrics {
	d := &declared{Registry: prometheus.NewRegistry(), prefix: prefix}
	m := &Metrics{
		Registry: d.Registry, HookRegistry: prometheus.NewRegistry(),
		Hooks: newHookMetrics(d), Reports: newReports(d), Bindings: newBindings(d), Modules: newModules(d), Helm: newHelm(d),
		Converge: newConvergeMetrics(d), Queues: newQueues(d), Client: newClient(d),
		declared: d, live: &live{declared: d},
		build: d.gauge("build_info", "1 for the version of the running operator, and of the Go compiler that built it.", "version", "goversion"),
	}
	m.HookRegistry.MustRegister(m.Reports)
	// live_ticks shows that the process lives. It is computed at a scrape, so it needs no timer.
	began, ticks := time.Now(), d.describe("counter", "live_ticks", "Increases by one every 10 seconds while the process runs.")
	d.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: ticks.Name, Help: ticks.Help}, func() float64 { return math.Floor(time.Since(began).Seconds() / 10) }))
	return m
}

// ShowVersion names the version of the operator. Only the command knows it, so it comes after New.
func (m *Metrics) ShowVersion(version string) {
	m.build.WithLabelValues(version, runtime.Version()).Set(1)
}

// ForgetModule removes the series of a module that is switched off (I9), those of its hooks
// included: a queue that it shares with others lives on, and its series name a hook without the
// module.
func (m *Metrics) ForgetModule(module string, own []hooks.Hook) {
	m.Reports.forget(func(who reporter) bool { return who.module == module })
	for _, v := range m.declared.byModule {
		v.DeletePartialMatch(prometheus.Labels{"module": module})
	}
	for _, hook := range own {
		m.ForgetHook(module, hook.Name)
	}
}

// ForgetHook removes the series of a hook whose file is gone (P8); module is empty for a global
// one. The name of a hook begins with the directory of its module, so it identifies the hook also
// where no label names the module.
func (m *Metrics) ForgetHook(module, hook string) {
	m.Reports.forget(func(who reporter) bool { return who == reporter{module, hook} })
	for _, v := range m.declared.byHook {
		v.DeletePartialMatch(prometheus.Labels{"hook": hook})
	}
}

// Families lists the metrics of the operator by name, also those without a series. Those of
// [Metrics.Watch] are among them only after it was called.
func (m *Metrics) Families() []Family {
	return slices.SortedFunc(slices.Values(m.declared.families), func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
}

// activation is the label of that name: what began the chain of causes (I3). A chain may be long
// and quote objects; its first word is one of few, so the number of series stays bounded.
func activation(c messages.Cause) string { return c.First().Activation }

func seconds(began time.Time) float64 { return time.Since(began).Seconds() }

// Family describes a metric to people: documentation, alerts and dashboards are checked
// against it, because a page of metrics shows only those that have a series.
type Family struct {
	Name, Type, Help string
	Labels           []string
}

// declared registers metrics and remembers what they are. All metrics of the operator are declared
// by its methods: one that is registered past them is missing in the documentation, and keeps the
// series of modules that are gone. It is written to by New, and Watch only, before
// anything is counted, and so has no lock.
type declared struct {
	*prometheus.Registry
	prefix   string
	families []Family
	// Those with a label module, and those with a label hook: series are removed from them when a
	// module or a hook is gone.
	byModule, byHook []vector
}

// vector is a vector of metrics of any type. The client has no interface for their common methods.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// describe adds a family to those that are documented, and returns it with its whole name. It
// registers nothing.
func (d *declared) describe(kind, name, help string, labels ...string) Family {
	f := Family{d.prefix + name, kind, help, labels}
	d.families = append(d.families, f)
	return f
}

// register panics for a name that is taken or not valid: that is a bug, which every test shows.
func (d *declared) register(v vector, f Family) {
	d.MustRegister(v)
	if slices.Contains(f.Labels, "module") {
		d.byModule = append(d.byModule, v)
	}
	if slices.Contains(f.Labels, "hook") {
		d.byHook = append(d.byHook, v)
	}
}

func (d *declared) counter(name, help string, labels ...string) *prometheus.CounterVec {
	f := d.describe("counter", name, help, labels...)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: help}, labels)
	d.register(v, f)
	return v
}

func (d *declared) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	f := d.describe("gauge", name, help, labels...)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.Name, Help: help}, labels)
	d.register(v, f)
	return v
}

// histogram is for what takes seconds or minutes, in seconds.
func (d *declared) histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return d.histogramOf([]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}, name, help, labels...)
}

// fine is a histogram of what takes far less than a second, in seconds.
func (d *declared) fine(name, help string, labels ...string) *prometheus.HistogramVec {
	return d.histogramOf([]float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5}, name, help, labels...)
}

func (d *declared) histogramOf(buckets []float64, name, help string, labels ...string) *prometheus.HistogramVec {
	f := d.describe("histogram", name, help, labels...)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.Name, Help: help, Buckets: buckets}, labels)
	d.register(v, f)
	return v
}

// summary is for durations, in seconds, of what there is a thousand of: modules, hooks and bindings. It has a sum and
// a count: with the buckets of histograms such series were most of a page of many megabytes.
func (d *declared) summary(name, help string, labels ...string) *prometheus.SummaryVec {
	f := d.describe("summary", name, help, labels...)
	v := prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: f.Name, Help: help}, labels)
	d.register(v, f)
	return v
}

// alias is a name that the first generations of dashboards know (X11): a sum over all hooks and modules. The caller counts
// it together with the vector that it sums up: a sum over the series of the vector would fall when
// a module is forgotten, which a counter must not.
func (d *declared) alias(name, of string) prometheus.Counter {
	help := "Old name of the sum over " + of + "."
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: d.prefix + name, Help: help})
	d.describe("counter", name, help)
	d.MustRegister(c)
	return c
}

// clientMetrics counts what the clients of the API server do. It implements kube.Requests and
// kube.Watches. Paths of requests are no labels: they name objects, whose number has no bound.
type clientMetrics struct {
	results                  *prometheus.CounterVec
	latency, held            *prometheus.HistogramVec
	watchErrors, interrupted *prometheus.CounterVec
}

func newClient(d *declared) clientMetrics {
	return clientMetrics{
		results:     d.counter("kubernetes_client_request_result_total", `Responses of the API server by HTTP status; "<error>" if there was none.`, "host", "verb", "code"),
		latency:     d.fine("kubernetes_client_request_latency_seconds", "Time until the API server responded.", "host", "verb"),
		held:        d.fine("kubernetes_client_rate_limiter_latency_seconds", "Time that requests waited for the operator's own rate limit.", "host", "verb"),
		watchErrors: d.counter("kubernetes_client_watch_errors_total", "Failed requests to list or to watch.", "error_type"),
		interrupted: d.counter("factory_informer_dead_total", "Watches that were interrupted; each is retried until it works again.", "gvr", "namespace"),
	}
}

// Answered implements kube.Requests. Each attempt of a retry is one answer.
func (c clientMetrics) Answered(host, verb, code string) {
	c.results.WithLabelValues(host, verb, code).Inc()
}

// Took implements kube.Requests.
func (c clientMetrics) Took(host, verb string, d time.Duration) {
	c.latency.WithLabelValues(host, verb).Observe(d.Seconds())
}

// Held implements kube.Requests.
func (c clientMetrics) Held(host, verb string, d time.Duration) {
	c.held.WithLabelValues(host, verb).Observe(d.Seconds())
}

// WatchFailed implements kube.Watches.
func (c clientMetrics) WatchFailed(kind string) { c.watchErrors.WithLabelValues(kind).Inc() }

// WatchInterrupted implements kube.Watches.
func (c clientMetrics) WatchInterrupted(resource, namespace string) {
	c.interrupted.WithLabelValues(resource, namespace).Inc()
}

// convergeMetrics counts reloads of all modules, and what leads to them or slows them down.
type convergeMetrics struct {
	// ConfigRefused counts ConfigMaps that are not valid, or were deleted.
	ConfigRefused prometheus.Counter
	// DiscoveryFailed counts failed discoveries of modules.
	DiscoveryFailed prometheus.Counter

	// by the activation of the cause. seconds and finished grow together, so their quotient is the
	// mean duration.
	seconds, finished, restarts, postponed, loops *prometheus.CounterVec
}

func newConvergeMetrics(d *declared) convergeMetrics {
	return convergeMetrics{
		ConfigRefused:   d.counter("config_values_errors_total", "Contents of the ConfigMap that were refused, and its deletions.").WithLabelValues(),
		DiscoveryFailed: d.counter("modules_discover_errors_total", "Failed discoveries of modules.").WithLabelValues(),
		seconds:         d.counter("convergence_seconds", "Time spent in finished reloads of all modules.", "activation"),
		finished:        d.counter("convergence_total", "Finished reloads of all modules.", "activation"),
		restarts:        d.counter("reload_restarts_total", "Reloads of all modules that were restarted before they had ended.", "activation"),
		postponed:       d.counter("reloads_postponed_total", "Reloads of all modules that had to wait for the end of another one, because it had been restarted too often.", "activation"),
		loops:           d.counter("value_loops_total", "Runs and reloads slowed down because they are part of a loop, also of corrections of drift that another client undoes; and charts that rendered differently from equal inputs.", "activation"),
	}
}

// Ended counts a reload that has finished.
func (c convergeMetrics) Ended(cause messages.Cause, began time.Time) {
	c.seconds.WithLabelValues(activation(cause)).Add(seconds(began))
	c.finished.WithLabelValues(activation(cause)).Inc()
}

// Restarted counts a reload that was started again before it had ended.
func (c convergeMetrics) Restarted(cause messages.Cause) {
	c.restarts.WithLabelValues(activation(cause)).Inc()
}

// Postponed counts a reload that waits for the end of another one.
func (c convergeMetrics) Postponed(cause messages.Cause) {
	c.postponed.WithLabelValues(activation(cause)).Inc()
}

// Looped counts what was slowed down because it is part of a loop.
func (c convergeMetrics) Looped(cause messages.Cause) {
	c.loops.WithLabelValues(activation(cause)).Inc()
}

// hookMetrics counts runs of hooks.
type hookMetrics struct {
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

func newHookMetrics(d *declared) hookMetrics {
	return hookMetrics{
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
func (h hookMetrics) Loaded(module string, found []hooks.Hook) {
	for _, hook := range found {
		count := len(hook.Config.Orders) + len(hook.Config.Schedules) + len(hook.Config.Kubernetes)
		h.bindings.WithLabelValues(module, hook.Name).Set(float64(count))
	}
}

// Ended counts a run of a hook by its outcome, nil for success, as exactly one of success, error
// and allowed error (I3); every run is timed. binding is the name of the first one that caused the
// run, or the type of an order binding. The caller leaves out runs that were ended with their
// module or the operator.
func (h hookMetrics) Ended(owner, hook, binding string, t messages.Task, u hooks.Usage, outcome error) {
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

// moduleMetrics counts runs of modules, and what happened to the objects of their releases.
type moduleMetrics struct {
	seconds                              *prometheus.SummaryVec
	failed, deletesFailed                *prometheus.CounterVec
	drift                                *prometheus.GaugeVec
	corrections, absentObjects, redeploy *prometheus.CounterVec
	oldFailed                            prometheus.Counter
}

func newModules(d *declared) moduleMetrics {
	return moduleMetrics{
		seconds:       d.summary("module_run_seconds", "Duration of successful module runs.", "module", "activation"),
		failed:        d.counter("module_run_errors_total", "Failed module runs.", "module"),
		deletesFailed: d.counter("module_delete_errors_total", "Failed deletions of modules.", "module"),
		drift:         d.gauge("module_drifted_objects", "Objects of the module's release that other clients have changed, according to the last check for drift.", "module"),
		corrections:   d.counter("module_drift_corrections_total", "Runs of the module that corrected drift.", "module"),
		absentObjects: d.counter("modules_absent_resources_total", "Objects of releases that were found absent.", "module", "resource"),
		redeploy:      d.counter("modules_helm_release_redeployed_total", "Releases applied again because objects were absent.", "module"),
		oldFailed:     d.alias("module_run_errors", d.prefix+"module_run_errors_total"),
	}
}

// Ran counts a module run that succeeded.
func (m moduleMetrics) Ran(module string, c messages.Cause, began time.Time) {
	m.seconds.WithLabelValues(module, activation(c)).Observe(seconds(began))
}

// Failed counts a failed attempt at a run or a delete; the phase of the module says which of them.
// The old name counts runs only.
func (m moduleMetrics) Failed(module string, phase view.Phase) {
	if phase == view.Deleting {
		m.deletesFailed.WithLabelValues(module).Inc()
		return
	}
	m.failed.WithLabelValues(module).Inc()
	m.oldFailed.Inc()
}

// Drifted shows what a check for drift has found.
func (m moduleMetrics) Drifted(module string, objects int) {
	m.drift.WithLabelValues(module).Set(float64(objects))
}

// ForgetDrift removes what the last check has found: it is no longer known. A zero would say that
// nothing has drifted.
func (m moduleMetrics) ForgetDrift(module string) { m.drift.DeleteLabelValues(module) }

// DriftCorrected counts a run that puts drift back, when it is decided on.
func (m moduleMetrics) DriftCorrected(module string) { m.corrections.WithLabelValues(module).Inc() }

// Absent counts objects of the release that are gone. Their names are labels, in a bounded number:
// a release has the objects of its chart, and the series end with the module.
func (m moduleMetrics) Absent(module string, gone []helm.Object) {
	for _, o := range gone {
		m.absentObjects.WithLabelValues(module, o.String()).Inc()
	}
}

// Redeployed counts a release that was applied again because of absent objects.
func (m moduleMetrics) Redeployed(module string) { m.redeploy.WithLabelValues(module).Inc() }

// Helm counts what Helm does for modules.
type helmMetrics struct {
	// seconds is the whole part of a run, operations are what it consists of.
	seconds    *prometheus.SummaryVec
	operations *prometheus.HistogramVec
	fallbacks  prometheus.Counter
}

func newHelm(d *declared) helmMetrics {
	return helmMetrics{
		seconds:    d.summary("module_helm_seconds", "Duration of the Helm part of module runs.", "module", "activation"),
		operations: d.histogram("helm_operation_seconds", "Duration of the steps of the Helm part, of all modules: template, check-upgrade, upgrade (also for installs), fallback.", "activation", "operation"),
		fallbacks:  d.counter("helm_fallback_total", "Repairs of releases that could not be upgraded directly: interrupted, corrupted, or failed at the first install.").WithLabelValues(),
	}
}

// Ran notes how long Helm took for a run, also one that failed.
func (h helmMetrics) Ran(module string, c messages.Cause, began time.Time) {
	h.seconds.WithLabelValues(module, activation(c)).Observe(seconds(began))
}

// Operated notes how long one operation of it took, also one that failed.
func (h helmMetrics) Operated(c messages.Cause, o helm.Operation, began time.Time) {
	h.operations.WithLabelValues(activation(c), string(o)).Observe(seconds(began))
	if o == helm.Fallback {
		h.fallbacks.Inc()
	}
}

// What a queue does, as tasks_queue_action_duration_seconds names it (I2): a task comes to the tail
// or to the head, or becomes the one in progress.
const (
	addLast     = "AddLast"
	addFirst    = "AddFirst"
	removeFirst = "RemoveFirst"
)

// queueMetrics counts what queues do. The labels queue and queue_name mean the same: these metrics have
// names and labels of older operators, which dashboards use.
type queueMetrics struct {
	wait        *prometheus.CounterVec
	actions     *prometheus.HistogramVec
	compactions *prometheus.CounterVec
	overflows   *prometheus.CounterVec
}

func newQueues(d *declared) queueMetrics {
	return queueMetrics{
		wait: d.counter("task_wait_in_queue_seconds_total", "Time that tasks waited in their queue.", "module", "hook", "binding", "queue"),
		actions: d.histogramOf([]float64{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1}, "tasks_queue_action_duration_seconds",
			"Time that a queue took to add, take or drop tasks.", "queue_name", "queue_action"),
		compactions: d.counter("tasks_queue_compaction_operations_total", "Runs of a hook that served several triggers at once.", "queue_name", "hook"),
		overflows:   d.counter("tasks_queue_overflows_total", "How often too many events waited for a hook, so that a Synchronization replaced the events of a binding.", "queue_name", "hook"),
	}
}

// Acted notes how long an action of a queue took.
func (q queueMetrics) Acted(queue, action string, began time.Time) {
	q.actions.WithLabelValues(queue, action).Observe(seconds(began))
}

// TaskStarted notes that a task has left the line. The pauses between attempts at it do not count
// as waiting: it is at the head then.
func (q queueMetrics) TaskStarted(t messages.Task) {
	hook := t.Hook()
	work, _ := t.Work.(messages.RunHook)
	q.wait.WithLabelValues(messages.ModuleOf(t.Owner), hook, bindingLabels(t), t.Queue).Add(seconds(t.QueuedAt))
	if len(work.Triggers) > 1 {
		q.compactions.WithLabelValues(t.Queue, hook).Inc()
	}
}

// Overflowed notes that events that waited for a hook were dropped (P5).
func (q queueMetrics) Overflowed(queue, hook string) {
	q.overflows.WithLabelValues(queue, hook).Inc()
}

// bindingOf is the name of the first binding that a task runs a hook for; empty for tasks that run
// no hook.
func bindingLabels(t messages.Task) string {
	switch w := t.Work.(type) {
	case messages.RunHook:
		return w.Triggers[0].Context.Binding
	case messages.SynchronizeHook:
		return w.Names[0]
	}
	return ""
}

// bindingMetrics counts changes of objects that kubernetes bindings watch.
type bindingMetrics struct {
	filter, event *prometheus.SummaryVec
	missing       *prometheus.CounterVec
}

func newBindings(d *declared) bindingMetrics {
	watch := []string{"module", "hook", "binding", "queue", "kind"}
	return bindingMetrics{
		filter:  d.summary("kube_jq_filter_duration_seconds", "Duration of the jqFilter of a binding on one object.", watch...),
		event:   d.summary("kube_event_duration_seconds", "Time from the arrival of a change of an object to its task in a queue.", watch...),
		missing: d.counter("binding_monitor_missing_total", "Changes of objects that arrived after the watch of their binding was stopped, together with the module.", "binding"),
	}
}

// Filter is the filter of a binding, which is timed. The goroutines of its watch call it for each
// object that arrives, so its series is looked up once, here, and not with each object.
func (b bindingMetrics) Filter(key messages.WatchKey, of hooks.KubernetesBinding) func(map[string]any) (json.RawMessage, error) {
	duration := b.filter.WithLabelValues(watchLabels(key, of)...)
	return func(object map[string]any) (json.RawMessage, error) {
		began := time.Now()
		defer func() { duration.Observe(seconds(began)) }()
		return of.Filter.Apply(object)
	}
}

// Queued notes how long a change took to become a task. A change that is held until the
// Synchronization of its binding has ended is left out: that wait is the hook's (C40).
func (b bindingMetrics) Queued(key messages.WatchKey, of hooks.KubernetesBinding, arrived time.Time) {
	b.event.WithLabelValues(watchLabels(key, of)...).Observe(seconds(arrived))
}

// Missing counts a change whose watch has ended: it was in the mailbox by then. Nothing is lost.
// The label names the binding by its place, because its name went with the watch.
func (b bindingMetrics) Missing(key messages.WatchKey) {
	b.missing.WithLabelValues(key.Binding.Hook + " kubernetes[" + strconv.Itoa(key.Binding.Index) + "]").Inc()
}

// watchLabels are in the order in which newBindings names them.
func watchLabels(key messages.WatchKey, b hooks.KubernetesBinding) []string {
	return []string{messages.ModuleOf(key.Owner), key.Binding.Hook, b.Name, b.Queue, b.Kind}
}
