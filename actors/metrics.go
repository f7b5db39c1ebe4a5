package actors

import (
	"encoding/json"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// Metrics are the figures of the operator. Whoever does a thing counts it here. Labels that do not apply are empty.
// The fields may be used from any goroutine; NewMetrics sets them, and nothing replaces them afterwards. Metrics
// implements kube.Watches.
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
	// Of modules: runs that have succeeded, and Helm's part of runs, also of failed ones, which consists of operations.
	// The names of objects that are absent are labels, in a bounded number: a release has the objects of its chart.
	runSeconds, helmSeconds                                     *prometheus.SummaryVec
	operations                                                  *prometheus.HistogramVec
	runFailed, deleteFailed, absent, Redeployed, DriftCorrected *prometheus.CounterVec
	oldRunFailed                                                prometheus.Counter
	// Of hooks: of modules, and global ones. The old names, which the first generations of dashboards know, are those of
	// sums over both (X11). They are counted together with the vectors: a sum over the series would fall when a module
	// is forgotten.
	moduleHooks, globalHooks      hookRuns
	oldHookFailed, oldHookAllowed prometheus.Counter
	// Of webhook requests.
	reviews       *prometheus.CounterVec
	reviewSeconds *prometheus.SummaryVec
	// Of queues. The labels queue and queue_name mean the same: these metrics have names and labels of older operators,
	// which dashboards use.
	waited, compactions, Overflows *prometheus.CounterVec
	actions                        *prometheus.HistogramVec
	// Of kubernetes bindings. eventSeconds leaves out changes that are held until the Synchronization of their binding
	// has ended: that wait is the hook's (C40).
	filterSeconds, eventSeconds *prometheus.SummaryVec
	missing                     *prometheus.CounterVec
	// Of the clients of the API server. Paths of requests are no labels: they name objects, whose number has no bound.
	Requests                 kube.Requests
	watchErrors, interrupted *prometheus.CounterVec

	// Families are the metrics of the operator, also those without a series.
	Families []Family
	prefix   string
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
// until there is an operator.
func NewMetrics(prefix string) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry(), HookRegistry: prometheus.NewRegistry(), prefix: prefix}
	m.live = m.newLive()
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
	m.Loops = m.counter("value_loops_total", "Runs and reloads slowed down because they are part of a loop, and charts that rendered differently from equal inputs.", "activation")

	m.runSeconds = m.summary("module_run_seconds", "Duration of successful module runs.", "module", "activation")
	m.runFailed = m.counter("module_run_errors_total", "Failed module runs.", "module")
	m.oldRunFailed = m.counter("module_run_errors", "Failed runs of all modules (old name).").WithLabelValues()
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
	m.oldHookFailed = m.counter("hook_errors", "Failed runs of all hooks (old name).").WithLabelValues()
	m.reviews = m.counter("webhook_requests_total", "Webhook requests that hooks have answered: allowed (also converted), denied, failed.", "module", "hook", "binding", "result")
	m.reviewSeconds = m.summary("webhook_request_seconds", "Time until the API server was answered.", "module", "hook", "binding")
	m.oldHookAllowed = m.counter("hook_allowed_errors", "Allowed failures of all hooks (old name).").WithLabelValues()
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

	watch := []string{"module", "hook", "binding", "queue", "kind"} // as monitor.labels gives them
	m.filterSeconds = m.summary("kube_jq_filter_duration_seconds", "Duration of the jqFilter of a binding on one object.", watch...)
	m.eventSeconds = m.summary("kube_event_duration_seconds", "Time from the arrival of a change of an object to its task in a queue.", watch...)
	m.missing = m.counter("binding_monitor_missing_total", "Changes of objects that arrived after the watch of their binding was stopped, together with the module.", "binding")

	short := []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5}
	m.Requests.Answers = m.counter("kubernetes_client_request_result_total", `Responses of the API server by HTTP status; "<error>" if there was none.`, "host", "verb", "code")
	m.Requests.Took = m.histogram("kubernetes_client_request_latency_seconds", "Time until the API server responded.", short, "host", "verb")
	m.Requests.Held = m.histogram("kubernetes_client_rate_limiter_latency_seconds", "Time that requests waited for the operator's own rate limit.", short, "host", "verb")
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
	m.forget("module", module, func(who reporter) bool { return who.module == module })
	for _, hook := range own {
		m.ForgetHook(module, hook.Name)
	}
}

// ForgetHook removes the series of a hook whose file is gone (P8); module is empty for a global
// one. The name of a hook begins with the directory of its module, so it identifies the hook also
// where no label names the module.
func (m *Metrics) ForgetHook(module, hook string) {
	m.forget("hook", hook, func(who reporter) bool { return who == reporter{module, hook} })
}

func (m *Metrics) forget(label, value string, reports func(reporter) bool) {
	m.Reports.forget(reports)
	for _, v := range m.vectors {
		v.DeletePartialMatch(prometheus.Labels{label: value})
	}
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
	m.Families = append(m.Families, f)
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

// Reviewed counts a webhook request.
func (m *Metrics) Reviewed(q messages.Review, a messages.Reviewed, began time.Time) {
	result := "allowed"
	if a.Err != nil {
		result = "failed"
	} else if q.Type != hooks.OnConversion && !a.Response.Allowed {
		result = "denied"
	}
	labels := []string{messages.ModuleOf(q.Owner), a.Hook, q.Name}
	m.reviewSeconds.WithLabelValues(labels...).Observe(seconds(began))
	m.reviews.WithLabelValues(append(labels, result)...).Inc()
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

// filter is the filter of a binding, which is timed. The goroutines of its watch call it for each
// object that arrives, so its series is looked up once, here, and not with each object.
func (m *Metrics) filter(of *monitor) func(map[string]any) (json.RawMessage, error) {
	took := m.filterSeconds.WithLabelValues(of.labels()...)
	return func(object map[string]any) (json.RawMessage, error) {
		defer prometheus.NewTimer(took).ObserveDuration()
		return of.binding.Filter.Apply(object)
	}
}

// live are metrics that are made at the moment of a scrape, from what actors publish about
// themselves: they need not be kept up to date, and what is gone has no series. A scrape runs in its own goroutine,
// several at the same time, so it must not ask an actor: one that is busy would hold up the page.
//
// A counter among them must be one in its source, too: Prometheus takes a number that falls for a
// restart.
type live struct {
	// source is nil before there is an operator. Another one replaces it, as in tests that restart it.
	source atomic.Pointer[program]
	states map[string]*prometheus.Desc
}

func (m *Metrics) newLive() *live {
	l := &live{states: map[string]*prometheus.Desc{}}
	for _, f := range liveFamilies() {
		kind := "gauge"
		if strings.HasSuffix(f.Name, "_total") { // by the naming rules of Prometheus counters, and only they, end so
			kind = "counter"
		}
		whole := m.describe(kind, f.Name, f.Help, f.Labels...)
		l.states[f.Name] = prometheus.NewDesc(whole.Name, f.Help, f.Labels, nil)
	}
	m.Registry.MustRegister(l)
	return l
}

// liveFamilies are these metrics, without prefix and type. scrape.emit has values for the labels, in their order.
func liveFamilies() []Family {
	labels := func(names ...string) []string { return names }
	watch := labels("module", "hook", "binding", "queue", "kind")
	return []Family{
		{Name: "actor_mailbox_length", Help: "Messages waiting in mailboxes.", Labels: labels("actor")},
		{Name: "kube_snapshot_objects", Help: "Objects in the snapshot of a binding.", Labels: watch},
		{Name: "kube_jq_filter_errors_total", Help: "Objects on which the jqFilter of a binding failed; they have no filterResult.", Labels: watch},
		{Name: "kube_binding_state", Help: "1 for the state of a binding's snapshot: syncing, complete, waiting-for-kind, forbidden, too-large, stale.", Labels: append(watch, "state")},
		{Name: "binding_count", Help: "Bindings of a hook.", Labels: labels("module", "hook")},
		{Name: "hook_hanging_seconds", Help: "How long a hook or an enabled script has been running. Reported after the first minute.", Labels: labels("module", "hook", "binding")},
		{Name: "tasks_queue_length", Help: "Tasks in a queue, including the one in progress.", Labels: labels("queue")},
		{Name: "tasks_queue_head_info", Help: "1 for the task that a queue is working on, or starts next.", Labels: labels("queue", "module", "task_type", "hook")},
		{Name: "tasks_queue_head_seconds", Help: "How long the task at the head has been in progress, including the delays between attempts.", Labels: labels("queue")},
		{Name: "tasks_queue_compaction_tasks_by_hook", Help: "Triggers that wait for a hook, if there are more than 20; its next run serves all of them.", Labels: labels("queue_name", "hook")},
		{Name: "tasks_queue_triggers", Help: "Events and ticks that wait in a queue; one task of a hook contains all that wait for it.", Labels: labels("queue")},
		{Name: "mm_module_info", Help: "1 for each module. critical is true if a failing run of a module holds up the others (module failure policy block).", Labels: labels("module", "enabled", "critical")},
		{Name: "mm_module_enabled", Help: "1 while the module is enabled. version is the version of the chart that was applied last.", Labels: labels("module", "version")},
		{Name: "mm_module_maintenance", Help: "1 while the module is under maintenance; state is its mode.", Labels: labels("module", "state")},
		{Name: "module_parked", Help: "1 while the module is parked: its run or delete fails, or takes long, and goes on outside of the main queue.", Labels: labels("module")},
		{Name: "module_unhealthy", Help: "1 while objects of the module's release have failed, or have been in progress for longer than ten minutes. addon-operator module list shows them.", Labels: labels("module")},
		{Name: "module_drifted_objects", Help: "Objects of the module's release that other clients have changed, according to the last check for drift.", Labels: labels("module")},
		{Name: "converged", Help: "1 when the first converge is over and no reload of all modules is in progress."},
		{Name: "purges_held", Help: "Releases without a module directory that are not purged until a person confirms it."},
		{Name: "config_values_refused", Help: "1 while the ConfigMap is refused, or deleted, and the last valid values are in force."},
		{Name: "leader", Help: "1 while this replica leads, 0 while it is a standby."},
		{Name: "leader_transitions_total", Help: "How often the leadership moved from one replica to another."},
	}
}

// scrape is one moment: all metrics of a scrape see the same statuses.
type scrape struct {
	*program
	states   map[string]*prometheus.Desc
	statuses map[string]supervisor.Status // by the path of the actor
	out      chan<- prometheus.Metric
}

// emit sends one series of a metric of liveFamilies. The same labels must not be
// emitted twice in a scrape: the registry leaves the second series out and reports an error. A
// wrong number of labels, or another name, is a bug and panics.
func (s scrape) emit(name string, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	s.out <- prometheus.MustNewConstMetric(s.states[name], kind, value, labels...)
}

// Describe implements prometheus.Collector. By it the registry notices a name that is taken.
func (l *live) Describe(out chan<- *prometheus.Desc) {
	for _, s := range l.states {
		out <- s
	}
}

// Collect implements prometheus.Collector.
func (l *live) Collect(out chan<- prometheus.Metric) {
	source := l.source.Load()
	if source == nil {
		return
	}
	s := scrape{source, l.states, source.Inspector.Statuses(), out}
	for kind, n := range s.Inspector.Waiting() { // by type: their number does not grow with the modules
		s.emit("actor_mailbox_length", float64(n), kind)
	}
	for _, h := range s.Runs.Hanging() {
		s.emit("hook_hanging_seconds", seconds(h.Began), h.Module, h.Hook, h.Binding)
	}
	s.bindings()
	s.queues()
	s.modules()
	s.converge()
}

// bindings are the states of the watches of bindings. A hook may have two bindings of one name in
// one queue, and series must be unique: their objects are added up, and the first state is shown.
// A binding has a series for its present state only, not a zero for each of the others: most of the
// page would be zeros.
func (s scrape) bindings() {
	all := map[[5]string]messages.BindingState{}
	monitors, _ := s.statuses[monitorsPath].(view.MonitorsStatus)
	for _, b := range monitors.Bindings {
		labels := [5]string{messages.ModuleOf(b.Owner), b.Hook, b.Binding, b.Queue, b.Kind}
		if first, seen := all[labels]; seen {
			b.Phase, b.Objects, b.FilterErrors = first.Phase, b.Objects+first.Objects, b.FilterErrors+first.FilterErrors
		}
		all[labels] = b
	}
	for labels, b := range all {
		s.emit("kube_snapshot_objects", float64(b.Objects), labels[:]...)
		s.emit("kube_jq_filter_errors_total", float64(b.FilterErrors), labels[:]...)
		s.emit("kube_binding_state", 1, append(labels[:], b.Phase)...)
	}
}

// queues are the lengths of queues, the tasks at their heads, and what waits for hooks in them.
func (s scrape) queues() {
	for path, status := range s.statuses {
		q, ok := status.(view.QueueStatus)
		if !ok {
			continue
		}
		_, queue, _ := strings.Cut(path, "/queue/") // which may have slashes
		if len(q.Head) > 0 {
			s.emit("tasks_queue_head_info", 1, queue, messages.ModuleOf(q.Head[0].Owner), q.Head[0].Kind(), q.Head[0].Hook())
		}
		s.emit("tasks_queue_length", float64(q.Length), queue)
		s.emit("tasks_queue_triggers", float64(q.Triggers), queue)
		if q.InProgress {
			s.emit("tasks_queue_head_seconds", seconds(q.Since), queue)
		}
		for hook, n := range q.Crowded { // few: the queue publishes only hooks with many triggers
			s.emit("tasks_queue_compaction_tasks_by_hook", float64(n), queue, hook)
		}
	}
}

// modules are what modules publish about themselves. Series of a disabled module end, except those
// that say that it is disabled, and its maintenance (I9). A module whose directory is gone keeps
// these, too, because its actor lives on.
func (s scrape) modules() {
	global, _ := s.statuses[globalPath].(view.GlobalStatus)
	s.hooks("", global.Loaded)
	for _, m := range view.Modules(s.statuses, nil, nil, time.Now()) {
		s.emit("mm_module_info", 1, m.Name, strconv.FormatBool(m.Enabled), strconv.FormatBool(!s.Isolate))
		s.emit("mm_module_enabled", number(m.Enabled), m.Name, m.Version)
		if m.Maintenance != "" { // also of a disabled module, whose release is kept
			s.emit("mm_module_maintenance", 1, m.Name, m.Maintenance)
		}
		if !m.Enabled {
			continue // I9
		}
		s.hooks(m.Name, m.Loaded)
		s.emit("module_parked", number(m.Parked), m.Name)
		s.emit("module_unhealthy", number(m.State == view.Unhealthy), m.Name)
		if m.Drifted != nil && !m.Drifted(false).Checked.IsZero() { // before, a zero would say that nothing has drifted
			s.emit("module_drifted_objects", float64(m.Drift), m.Name)
		}
	}
}

// hooks are the bindings of hooks of all types: a hook that binds beforeHelm and two crontabs has three.
func (s scrape) hooks(module string, loaded []hooks.Hook) {
	for _, h := range loaded {
		s.emit("binding_count", float64(len(h.Config.Orders)+len(h.Config.Schedules)+len(h.Config.Kubernetes)), module, h.Name)
	}
}

// converge is whether all modules are in the state that is wanted, what a person has to decide, and who leads.
// These have a series at any time, with 0 for no or nothing, so that an alert can tell "no" from
// "no operator".
func (s scrape) converge() {
	now, _ := s.statuses[convergePath].(view.ConvergeStatus)
	config, _ := s.statuses[configPath].(view.ConfigStatus)
	leads := view.Leadership{Leading: true} // who is alone leads
	if s.Leadership != nil {
		leads = s.Leadership()
	}
	s.emit("converged", number(now.Ready && now.Phase == view.ConvergeIdle))
	releases := 0
	if now.HeldPurge != nil {
		releases = len(now.HeldPurge.Releases)
	}
	s.emit("purges_held", float64(releases))
	s.emit("config_values_refused", number(config.Refused != ""))
	s.emit("leader", number(leads.Leading))
	s.emit("leader_transitions_total", float64(leads.Transitions))
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
