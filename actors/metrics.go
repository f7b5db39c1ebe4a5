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

// Metrics are the figures of the operator. Whoever does a thing counts it here. Labels that do not apply are empty.
// The fields may be used from any goroutine; NewMetrics sets them, and nothing replaces them afterwards. Metrics
// implements kube.Requests and kube.Watches.
type Metrics struct {
	// Registry has the metrics of the operator alone. A page that shows both registries gathers
	// both.
	Registry *prometheus.Registry
	// HookRegistry has what hooks report (/metrics/hooks). It is a registry of its own because its
	// series come and go with the hooks, and some scrapers read only those.
	HookRegistry *prometheus.Registry
	Reports      *hookReports

	// Of what concerns all modules. reloadSeconds and reloads grow together, so their quotient is the mean duration.
	ConfigRefused, DiscoveryFailed, fallbacks                       prometheus.Counter
	reloadSeconds, reloads, ReloadRestarts, ReloadsPostponed, Loops *prometheus.CounterVec
	// Of modules: runs that have succeeded, and Helm's part of runs, also of failed ones, which consists of operations. The
	// names of objects that are absent are labels, in a bounded number: a release has the objects of its chart.
	runSeconds, helmSeconds                                     *prometheus.SummaryVec
	operations                                                  *prometheus.HistogramVec
	runFailed, deleteFailed, absent, Redeployed, DriftCorrected *prometheus.CounterVec
	oldRunFailed                                                prometheus.Counter
	// Of hooks: of modules, and global ones. The old names are those of sums over both (X11).
	moduleHooks, globalHooks      hookRuns
	oldHookFailed, oldHookAllowed prometheus.Counter
	// Of queues. The labels queue and queue_name mean the same: these metrics have names and labels of older operators,
	// which dashboards use.
	waited, compactions, Overflows *prometheus.CounterVec
	actions                        *prometheus.HistogramVec
	// Of kubernetes bindings. eventSeconds leaves out changes that are held until the Synchronization of their binding has
	// ended: that wait is the hook's (C40).
	filterSeconds, eventSeconds *prometheus.SummaryVec
	missing                     *prometheus.CounterVec
	// Of the clients of the API server. Paths of requests are no labels: they name objects, whose number has no bound.
	answers, watchErrors, interrupted *prometheus.CounterVec
	latency, held                     *prometheus.HistogramVec

	prefix   string
	families []Family
	vectors  []vector // those with labels
	build    *prometheus.GaugeVec
	live     *live
}

// hookRuns exist once for hooks of modules and once for global ones: their names are different
// metrics, and those of global hooks have no label module (I2).
type hookRuns struct {
	seconds, user, system    *prometheus.SummaryVec
	rss                      *prometheus.GaugeVec
	failed, allowed, success *prometheus.CounterVec
}

// NewMetrics registers the metrics in registries of their own, so that a process may have several
// operators, as tests do. Their names begin with prefix. The states that a scrape reads are missing
// until [Metrics.Watch] names their sources.
func NewMetrics(prefix string) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry(), HookRegistry: prometheus.NewRegistry(), prefix: prefix}
	m.live = &live{states: map[string]state{}}
	m.build = m.gauge("build_info", "1 for the version of the running operator, and of the Go compiler that built it.", "version", "goversion")
	m.Reports = newReports(m)
	m.HookRegistry.MustRegister(m.Reports)
	// live_ticks shows that the process lives. It is computed at a scrape, so it needs no timer.
	began, ticks := time.Now(), m.describe("counter", "live_ticks", "Increases by one every 10 seconds while the process runs.")
	m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: ticks.Name, Help: ticks.Help}, func() float64 { return math.Floor(time.Since(began).Seconds() / 10) }))
	m.declareModules()
	m.declareEvents()
	return m
}

// declareModules declares what is counted of reloads, modules and runs of hooks.
func (m *Metrics) declareModules() {
	m.ConfigRefused = m.counter("config_values_errors_total", "Contents of the ConfigMap that were refused, and its deletions.").WithLabelValues()
	m.DiscoveryFailed = m.counter("modules_discover_errors_total", "Failed discoveries of modules.").WithLabelValues()
	m.reloadSeconds = m.counter("convergence_seconds", "Time spent in finished reloads of all modules.", "activation")
	m.reloads = m.counter("convergence_total", "Finished reloads of all modules.", "activation")
	m.ReloadRestarts = m.counter("reload_restarts_total", "Reloads of all modules that were restarted before they had ended.", "activation")
	m.ReloadsPostponed = m.counter("reloads_postponed_total", "Reloads of all modules that had to wait for the end of another one, because it had been restarted too often.", "activation")
	m.Loops = m.counter("value_loops_total", "Runs and reloads slowed down because they are part of a loop, also of corrections of drift that another client undoes; and charts that rendered differently from equal inputs.", "activation")

	m.runSeconds = m.summary("module_run_seconds", "Duration of successful module runs.", "module", "activation")
	m.runFailed = m.counter("module_run_errors_total", "Failed module runs.", "module")
	m.oldRunFailed = m.alias("module_run_errors", m.prefix+"module_run_errors_total")
	m.deleteFailed = m.counter("module_delete_errors_total", "Failed deletions of modules.", "module")
	m.DriftCorrected = m.counter("module_drift_corrections_total", "Runs of the module that corrected drift.", "module")
	m.absent = m.counter("modules_absent_resources_total", "Objects of releases that were found absent.", "module", "resource")
	m.Redeployed = m.counter("modules_helm_release_redeployed_total", "Releases applied again because objects were absent.", "module")
	m.helmSeconds = m.summary("module_helm_seconds", "Duration of the Helm part of module runs.", "module", "activation")
	m.operations = m.histogram("helm_operation_seconds", "Duration of the steps of the Helm part, of all modules: template, check-upgrade, upgrade (also for installs), fallback.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}, "activation", "operation")
	m.fallbacks = m.counter("helm_fallback_total", "Repairs of releases that could not be upgraded directly: interrupted, corrupted, or failed at the first install.").WithLabelValues()

	m.moduleHooks = m.hookRuns("module_hook_", "module", "hook", "binding", "queue", "activation")
	m.globalHooks = m.hookRuns("global_hook_", "hook", "binding", "queue", "activation")
	m.oldHookFailed = m.alias("hook_errors", m.prefix+"module_hook_errors_total and "+m.prefix+"global_hook_errors_total")
	m.oldHookAllowed = m.alias("hook_allowed_errors", m.prefix+"module_hook_allowed_errors_total and "+m.prefix+"global_hook_allowed_errors_total")
}

// hookRuns declares the metrics of one kind of hooks. They are most of the page, since there are
// many hooks with several bindings each. labels must end with hook, binding,
// queue and activation, as HookEnded gives them.
func (m *Metrics) hookRuns(kind string, labels ...string) hookRuns {
	return hookRuns{
		seconds: m.summary(kind+"run_seconds", "Duration of hook runs, including failed ones.", labels...),
		user:    m.summary(kind+"run_user_cpu_seconds", "User CPU time of hook runs.", labels...),
		system:  m.summary(kind+"run_sys_cpu_seconds", "System CPU time of hook runs.", labels...),
		rss:     m.gauge(kind+"run_max_rss_bytes", "Peak memory of the last run, if above that of the operator itself: the kernel does not know a smaller one.", labels...),
		failed:  m.counter(kind+"errors_total", "Failed hook runs: the hook failed, its result was refused or could not be applied.", labels...),
		allowed: m.counter(kind+"allowed_errors_total", "Failed hook runs whose failure is allowed; they are not counted as other errors.", labels...),
		success: m.counter(kind+"success_total", "Hook runs whose result was applied.", labels...),
	}
}

// declareEvents declares what is counted of queues, bindings and requests.
func (m *Metrics) declareEvents() {
	m.waited = m.counter("task_wait_in_queue_seconds_total", "Time that tasks waited in their queue.", "module", "hook", "binding", "queue")
	m.actions = m.histogram("tasks_queue_action_duration_seconds", "Time that a queue took to add, take or drop tasks.",
		[]float64{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1}, "queue_name", "queue_action")
	m.compactions = m.counter("tasks_queue_compaction_operations_total", "Runs of a hook that served several triggers at once.", "queue_name", "hook")
	m.Overflows = m.counter("tasks_queue_overflows_total", "How often too many events waited for a hook, so that a Synchronization replaced the events of a binding.", "queue_name", "hook")

	watch := []string{"module", "hook", "binding", "queue", "kind"}
	m.filterSeconds = m.summary("kube_jq_filter_duration_seconds", "Duration of the jqFilter of a binding on one object.", watch...)
	m.eventSeconds = m.summary("kube_event_duration_seconds", "Time from the arrival of a change of an object to its task in a queue.", watch...)
	m.missing = m.counter("binding_monitor_missing_total", "Changes of objects that arrived after the watch of their binding was stopped, together with the module.", "binding")

	short := []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5}
	m.answers = m.counter("kubernetes_client_request_result_total", `Responses of the API server by HTTP status; "<error>" if there was none.`, "host", "verb", "code")
	m.latency = m.histogram("kubernetes_client_request_latency_seconds", "Time until the API server responded.", short, "host", "verb")
	m.held = m.histogram("kubernetes_client_rate_limiter_latency_seconds", "Time that requests waited for the operator's own rate limit.", short, "host", "verb")
	m.watchErrors = m.counter("kubernetes_client_watch_errors_total", "Failed requests to list or to watch.", "error_type")
	m.interrupted = m.counter("factory_informer_dead_total", "Watches that were interrupted; each is retried until it works again.", "gvr", "namespace")
}

// ShowVersion names the version of the operator. Only the command knows it, so it comes after NewMetrics.
func (m *Metrics) ShowVersion(version string) {
	m.build.WithLabelValues(version, runtime.Version()).Set(1)
}

// ForgetModule removes the series of a module that is switched off (I9), those of its hooks
// included: a queue that it shares with others lives on, and its series name a hook without the
// module.
func (m *Metrics) ForgetModule(module string, own []hooks.Hook) {
	m.Reports.forget(func(who reporter) bool { return who.module == module })
	for _, v := range m.vectors {
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
	for _, v := range m.vectors {
		v.DeletePartialMatch(prometheus.Labels{"hook": hook})
	}
}

// Families lists the metrics of the operator by name, also those without a series. Those of
// [Metrics.Watch] are among them only after it was called.
func (m *Metrics) Families() []Family {
	return slices.SortedFunc(slices.Values(m.families), func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
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

// vector is a vector of metrics of any type. The client has no interface for their common methods.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// describe adds a family to those that are documented, and returns it with its whole name. It
// registers nothing. A metric that is declared past it is missing in the documentation.
func (m *Metrics) describe(kind, name, help string, labels ...string) Family {
	f := Family{m.prefix + name, kind, help, labels}
	m.families = append(m.families, f)
	return f
}

// register panics for a name that is taken or not valid: that is a bug, which every test shows. A vector that is
// registered past it keeps the series of modules that are gone.
func register[V vector](m *Metrics, v V) V {
	m.Registry.MustRegister(v)
	m.vectors = append(m.vectors, v)
	return v
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	f := m.describe("counter", name, help, labels...)
	return register(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: help}, labels))
}

func (m *Metrics) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	f := m.describe("gauge", name, help, labels...)
	return register(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.Name, Help: help}, labels))
}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	f := m.describe("histogram", name, help, labels...)
	return register(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.Name, Help: help, Buckets: buckets}, labels))
}

// summary is for durations, in seconds, of what there is a thousand of: modules, hooks and bindings. It has a sum and
// a count: with the buckets of histograms such series were most of a page of many megabytes.
func (m *Metrics) summary(name, help string, labels ...string) *prometheus.SummaryVec {
	f := m.describe("summary", name, help, labels...)
	return register(m, prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: f.Name, Help: help}, labels))
}

// alias is a name that the first generations of dashboards know (X11): a sum over all hooks and modules. The caller counts
// it together with the vector that it sums up: a sum over the series of the vector would fall when
// a module is forgotten, which a counter must not.
func (m *Metrics) alias(name, of string) prometheus.Counter {
	return m.counter(name, "Old name of the sum over "+of+".").WithLabelValues()
}

// Answered implements kube.Requests. Each attempt of a retry is one answer.
func (m *Metrics) Answered(host, verb, code string) {
	m.answers.WithLabelValues(host, verb, code).Inc()
}

// Took implements kube.Requests.
func (m *Metrics) Took(host, verb string, d time.Duration) {
	m.latency.WithLabelValues(host, verb).Observe(d.Seconds())
}

// Held implements kube.Requests.
func (m *Metrics) Held(host, verb string, d time.Duration) {
	m.held.WithLabelValues(host, verb).Observe(d.Seconds())
}

// WatchFailed implements kube.Watches.
func (m *Metrics) WatchFailed(kind string) { m.watchErrors.WithLabelValues(kind).Inc() }

// WatchInterrupted implements kube.Watches.
func (m *Metrics) WatchInterrupted(resource, namespace string) {
	m.interrupted.WithLabelValues(resource, namespace).Inc()
}

// HookEnded counts a run of a hook by its outcome, nil for success, as exactly one of success, error
// and allowed error (I3); every run is timed. binding is the name of the first one that caused the
// run, or the type of an order binding. The caller leaves out runs that were ended with their
// module or the operator.
func (m *Metrics) HookEnded(owner, hook, binding string, t messages.Task, u hooks.Usage, outcome error) {
	runs, labels := m.globalHooks, []string{hook, binding, t.Queue, activation(t.Cause)}
	if owner != messages.GlobalHooks {
		runs, labels = m.moduleHooks, append([]string{owner}, labels...)
	}
	switch {
	case outcome == nil:
		runs.success.WithLabelValues(labels...).Inc()
	case t.AllowFailure:
		runs.allowed.WithLabelValues(labels...).Inc()
		m.oldHookAllowed.Inc()
	default:
		runs.failed.WithLabelValues(labels...).Inc()
		m.oldHookFailed.Inc()
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

// ModuleFailed counts a failed attempt at a run or a delete; the phase of the module says which of them.
// The old name counts runs only.
func (m *Metrics) ModuleFailed(module string, phase view.Phase) {
	if phase == view.Deleting {
		m.deleteFailed.WithLabelValues(module).Inc()
		return
	}
	m.runFailed.WithLabelValues(module).Inc()
	m.oldRunFailed.Inc()
}

// Operated notes how long one operation of Helm took, also one that failed.
func (m *Metrics) Operated(c messages.Cause, o helm.Operation, began time.Time) {
	m.operations.WithLabelValues(activation(c), string(o)).Observe(seconds(began))
	if o == helm.Fallback {
		m.fallbacks.Inc()
	}
}

// What a queue does, as tasks_queue_action_duration_seconds names it (I2): a task comes to the tail
// or to the head, or becomes the one in progress.
const (
	addLast     = "AddLast"
	addFirst    = "AddFirst"
	removeFirst = "RemoveFirst"
)

// TaskStarted notes that a task has left the line. The pauses between attempts at it do not count
// as waiting: it is at the head then. The label binding is the first one that the task runs a hook for.
func (m *Metrics) TaskStarted(t messages.Task) {
	binding := ""
	switch w := t.Work.(type) {
	case messages.RunHook:
		binding = w.Triggers[0].Context.Binding
		if len(w.Triggers) > 1 {
			m.compactions.WithLabelValues(t.Queue, t.Hook()).Inc()
		}
	case messages.SynchronizeHook:
		binding = w.Names[0]
	}
	m.waited.WithLabelValues(messages.ModuleOf(t.Owner), t.Hook(), binding, t.Queue).Add(seconds(t.QueuedAt))
}

// Filter is the filter of a binding, which is timed. The goroutines of its watch call it for each
// object that arrives, so its series is looked up once, here, and not with each object.
func (m *Metrics) Filter(key messages.WatchKey, of hooks.KubernetesBinding) func(map[string]any) (json.RawMessage, error) {
	duration := m.filterSeconds.WithLabelValues(watchLabels(key, of)...)
	return func(object map[string]any) (json.RawMessage, error) {
		began := time.Now()
		defer func() { duration.Observe(seconds(began)) }()
		return of.Filter.Apply(object)
	}
}

// EventMissed counts a change whose watch has ended: it was in the mailbox by then. Nothing is lost.
// The label names the binding by its place, because its name went with the watch.
func (m *Metrics) EventMissed(key messages.WatchKey) {
	m.missing.WithLabelValues(key.Binding.Hook + " kubernetes[" + strconv.Itoa(key.Binding.Index) + "]").Inc()
}

// watchLabels are in the order in which declareEvents names them.
func watchLabels(key messages.WatchKey, b hooks.KubernetesBinding) []string {
	return []string{messages.ModuleOf(key.Owner), key.Binding.Hook, b.Name, b.Queue, b.Kind}
}
