package actors

import (
	"encoding/json"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// DefaultPrefix is put before the names of all metrics of the operator (chapter i).
const DefaultPrefix = "addon_operator_"

// Metrics are the figures of the operator. Labels that do not apply are empty.
type Metrics struct {
	Registry *prometheus.Registry
	// Hooks is what hooks report, in a registry of its own.
	Hooks  *prometheus.Registry
	custom *HookMetrics
	prefix string

	bindings        *prometheus.GaugeVec
	configErrors    prometheus.Counter
	discoverErrors  prometheus.Counter
	moduleSeconds   *prometheus.HistogramVec
	moduleErrors    *prometheus.CounterVec
	deleteErrors    *prometheus.CounterVec
	drift           *prometheus.GaugeVec
	corrections     *prometheus.CounterVec
	convergeSeconds *prometheus.CounterVec
	convergeTotal   *prometheus.CounterVec
	loops           *prometheus.CounterVec
	restarts        *prometheus.CounterVec
	postponed       *prometheus.CounterVec
	absent, healing *prometheus.CounterVec
	filterSeconds   *prometheus.HistogramVec
	eventSeconds    *prometheus.HistogramVec
	bindingMissing  *prometheus.CounterVec
	droppedSeries   *prometheus.CounterVec
	build           *prometheus.GaugeVec
	module, global  hookMetrics
	queue           queueMetrics
	helm            helmMetrics
	client          *ClientMetrics
	old             aliases

	collectors []prometheus.Collector // of Registry, for Families
	byModule   []labelled             // with a label module
	seen       atomic.Pointer[seen]
}

// hookMetrics exist once for hooks of modules and once for global ones.
type hookMetrics struct {
	seconds, user, system    *prometheus.HistogramVec
	rss                      *prometheus.GaugeVec
	failed, allowed, success *prometheus.CounterVec
}

// NewMetrics registers the metrics in a registry of their own. Their names begin with prefix.
func NewMetrics(prefix string) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry(), Hooks: prometheus.NewRegistry(), custom: newHookMetrics(prefix), prefix: prefix}
	m.Hooks.MustRegister(m.custom)
	m.bindings = m.gauge("binding_count", "Bindings of a hook.", "module", "hook")
	m.configErrors = m.counter("config_values_errors_total", "Contents of the ConfigMap that were refused, and its deletions.").WithLabelValues()
	m.discoverErrors = m.counter("modules_discover_errors_total", "Failed discoveries of modules.").WithLabelValues()
	m.moduleSeconds = m.histogram("module_run_seconds", "Duration of successful module runs.", "module", "activation")
	m.moduleErrors = m.counter("module_run_errors_total", "Failed module runs.", "module")
	m.deleteErrors = m.counter("module_delete_errors_total", "Failed deletes of modules.", "module")
	m.drift = m.gauge("module_drifted_objects", "Objects of the module's release that others have changed, by the last check for drift.", "module")
	m.corrections = m.counter("module_drift_corrections_total", "Runs of the module that put drift back.", "module")
	m.convergeSeconds = m.counter("convergence_seconds", "Time spent in finished reloads of all modules.", "activation")
	m.convergeTotal = m.counter("convergence_total", "Finished reloads of all modules.", "activation")
	m.restarts = m.counter("reload_restarts_total", "Reloads of all modules that were started again before they had ended.", "activation")
	m.postponed = m.counter("reloads_postponed_total", "Reloads of all modules that had to wait for the end of another one, because that had been started again too often.", "activation")
	m.loops = m.counter("value_loops_total", "Events and tasks slowed down because hooks cause each other in a circle, also through objects that they or Helm write, a chart renders by chance, or another client undoes each correction of drift.", "activation")
	m.absent = m.counter("modules_absent_resources_total", "Objects of releases that were found absent.", "module", "resource")
	m.healing = m.counter("modules_helm_release_redeployed_total", "Releases applied again because objects were absent.", "module")
	watch := []string{"module", "hook", "binding", "queue", "kind"}
	m.filterSeconds = m.fine("kube_jq_filter_duration_seconds", "Duration of the jqFilter of a binding on one object.", watch...)
	m.eventSeconds = m.fine("kube_event_duration_seconds", "Time from the arrival of a change of an object to its task in a queue.", watch...)
	m.bindingMissing = m.counter("binding_monitor_missing_total", "Changes of objects that came after the watch of their binding was stopped, with its module.", "binding")
	m.droppedSeries = m.counter("hook_metrics_dropped_total", "Values that hooks reported for new series of metrics, and that were dropped because the hook has too many.", "module", "hook")
	m.module = m.hooks("module_hook_", "module", "hook", "binding", "queue", "activation")
	m.global = m.hooks("global_hook_", "hook", "binding", "queue", "activation")
	m.queue, m.helm, m.client, m.old = m.queueMetrics(), m.helmMetrics(), m.clientMetrics(), newAliases(prefix)
	m.build = m.gauge("build_info", "1 for the version of the operator that runs, and of the Go compiler that built it.", "version", "goversion")
	began := time.Now()
	m.register(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: prefix + "live_ticks", Help: "Grows by one each 10 seconds while the process lives.",
	}, func() float64 { return math.Floor(time.Since(began).Seconds() / 10) }))
	return m
}

// ShowVersion names the version of the operator.
func (m *Metrics) ShowVersion(version string) {
	m.build.WithLabelValues(version, runtime.Version()).Set(1)
}

// LimitHookSeries sets how many series of metrics a hook may report; what exists already stays.
func (m *Metrics) LimitHookSeries(limit int) {
	m.custom.mu.Lock()
	defer m.custom.mu.Unlock()
	m.custom.limit = limit
}

// hookReported shows what a run of a hook reports. It logs how many values were dropped the first time that any are.
func (m *Metrics) hookReported(owner, hook string, reported []hooks.Metric) (dropped int) {
	dropped, first := m.custom.report(owner, hook, reported)
	if dropped > 0 {
		m.droppedSeries.WithLabelValues(moduleLabel(owner), hook).Add(float64(dropped))
	}
	if !first {
		return 0
	}
	return dropped
}

// Client counts requests to the API server; package kube reports them.
func (m *Metrics) Client() *ClientMetrics { return m.client }

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.prefix + name, Help: help}, labels)
	m.registerLabelled(v, labels)
	return v
}

func (m *Metrics) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.prefix + name, Help: help}, labels)
	m.registerLabelled(v, labels)
	return v
}

// histogram is for what takes seconds or minutes.
func (m *Metrics) histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return m.histogramOf([]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}, name, help, labels...)
}

// fine is a histogram of what takes far less than a second.
func (m *Metrics) fine(name, help string, labels ...string) *prometheus.HistogramVec {
	return m.histogramOf([]float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5}, name, help, labels...)
}

func (m *Metrics) histogramOf(buckets []float64, name, help string, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.prefix + name, Help: help, Buckets: buckets}, labels)
	m.registerLabelled(v, labels)
	return v
}

// labelled is a vector of metrics, of any type.
type labelled interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

func (m *Metrics) registerLabelled(v labelled, labels []string) {
	m.register(v)
	if slices.Contains(labels, "module") {
		m.byModule = append(m.byModule, v)
	}
}

// hooks makes the metrics of hooks. They are most of the page, since there are many hooks
// with several bindings each: hence the few buckets.
func (m *Metrics) hooks(kind string, labels ...string) hookMetrics {
	wall, cpu := []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}, []float64{.01, .05, .1, .5, 1, 5, 30}
	return hookMetrics{
		seconds: m.histogramOf(wall, kind+"run_seconds", "Duration of hook runs, failed ones included.", labels...),
		user:    m.histogramOf(cpu, kind+"run_user_cpu_seconds", "User CPU time of hook runs.", labels...),
		system:  m.histogramOf(cpu, kind+"run_sys_cpu_seconds", "System CPU time of hook runs.", labels...),
		rss:     m.gauge(kind+"run_max_rss_bytes", "Peak memory of the last run. For a hook that needs less than the operator ever did it is what looks at the running hook have seen.", labels...),
		failed:  m.counter(kind+"errors_total", "Failed hook runs: the hook failed, its result was refused or could not be applied.", labels...),
		allowed: m.counter(kind+"allowed_errors_total", "The same where the failure is allowed; such a run is no other error.", labels...),
		success: m.counter(kind+"success_total", "Hook runs whose result was applied.", labels...),
	}
}

// timed measures the filter of a binding.
func (m *Metrics) timed(key messages.WatchKey, b hooks.KubernetesBinding) func(map[string]any) (json.RawMessage, error) {
	seconds := m.filterSeconds.WithLabelValues(watchLabels(key, b)...)
	return func(object map[string]any) (json.RawMessage, error) {
		began := time.Now()
		defer func() { seconds.Observe(since(began)) }()
		return b.Filter.Apply(object)
	}
}

// eventQueued notes how long a change took to become a task.
func (m *Metrics) eventQueued(key messages.WatchKey, b hooks.KubernetesBinding, arrived time.Time) {
	m.eventSeconds.WithLabelValues(watchLabels(key, b)...).Observe(since(arrived))
}

func watchLabels(key messages.WatchKey, b hooks.KubernetesBinding) []string {
	return []string{moduleLabel(key.Owner), key.Binding.Hook, b.Name, b.Queue, b.Kind}
}

func (m *Metrics) hooksLoaded(module string, found []hooks.Hook) {
	for _, h := range found {
		count := len(h.Config.Orders) + len(h.Config.Schedules) + len(h.Config.Kubernetes)
		m.bindings.WithLabelValues(module, h.Name).Set(float64(count))
	}
}

func (m *Metrics) configRefused()       { m.configErrors.Inc() }
func (m *Metrics) discoveryFailed()     { m.discoverErrors.Inc() }
func (m *Metrics) healed(module string) { m.healing.WithLabelValues(module).Inc() }

func (m *Metrics) objectsGone(module string, gone []helm.Object) {
	for _, o := range gone {
		m.absent.WithLabelValues(module, o.String()).Inc()
	}
}

func (m *Metrics) reloadRestarted(c messages.Cause) {
	m.restarts.WithLabelValues(c.First().Activation).Inc()
}

func (m *Metrics) reloadPostponed(c messages.Cause) {
	m.postponed.WithLabelValues(c.First().Activation).Inc()
}

func (m *Metrics) looped(c messages.Cause) { m.loops.WithLabelValues(c.First().Activation).Inc() }

// forgetModule removes the series of a module that is switched off (I9).
func (m *Metrics) forgetModule(module string) {
	m.custom.forget(module)
	for _, v := range m.byModule {
		v.DeletePartialMatch(prometheus.Labels{"module": module})
	}
}

// monitorMissing records a change that is no longer waited for.
func (m *Metrics) monitorMissing(key messages.WatchKey) {
	m.bindingMissing.WithLabelValues(key.Binding.Hook + " kubernetes[" + strconv.Itoa(key.Binding.Index) + "]").Inc()
}

// drifted notes what a look for drift has found; -1 forgets the module.
func (m *Metrics) drifted(module string, objects int) {
	if objects < 0 {
		m.drift.DeleteLabelValues(module)
		return
	}
	m.drift.WithLabelValues(module).Set(float64(objects))
}

func (m *Metrics) driftCorrected(module string) { m.corrections.WithLabelValues(module).Inc() }

func (m *Metrics) moduleFailed(module string, phase messages.Phase) {
	if phase == messages.Deleting {
		m.deleteErrors.WithLabelValues(module).Inc()
		return
	}
	m.moduleErrors.WithLabelValues(module).Inc()
	m.old.moduleErrors.Inc()
}

func (m *Metrics) moduleRan(module string, t messages.Task, seconds float64) {
	m.moduleSeconds.WithLabelValues(module, t.Cause.First().Activation).Observe(seconds)
}

func (m *Metrics) converged(cause messages.Cause, seconds float64) {
	m.convergeSeconds.WithLabelValues(cause.First().Activation).Add(seconds)
	m.convergeTotal.WithLabelValues(cause.First().Activation).Inc()
}

// moduleLabel is empty for owners that are no modules.
func moduleLabel(owner string) string {
	if owner == messages.GlobalHooks || owner == messages.Converge {
		return ""
	}
	return owner
}

// of picks the family of an owner's hooks, and the values of its labels.
func (m *Metrics) of(owner, hook, binding string, t messages.Task) (hookMetrics, []string) {
	labels := []string{hook, binding, t.Queue, t.Cause.First().Activation}
	if owner == messages.GlobalHooks {
		return m.global, labels
	}
	return m.module, append([]string{owner}, labels...)
}

// hookRan counts a run of a hook that has ended, and what became of its result; every run is timed.
func (m *Metrics) hookRan(owner, hook, binding string, t messages.Task, u hooks.Usage, err error) {
	family, labels := m.of(owner, hook, binding, t)
	switch {
	case err == nil:
		family.success.WithLabelValues(labels...).Inc()
	case t.AllowFailure:
		family.allowed.WithLabelValues(labels...).Inc()
		m.old.hookAllowed.Inc()
	default:
		family.failed.WithLabelValues(labels...).Inc()
		m.old.hookErrors.Inc()
	}
	family.seconds.WithLabelValues(labels...).Observe(u.Wall.Seconds())
	family.user.WithLabelValues(labels...).Observe(u.User.Seconds())
	family.system.WithLabelValues(labels...).Observe(u.System.Seconds())
	if u.MaxRSS > 0 { // 0: it is not known, which is something else than no memory
		family.rss.WithLabelValues(labels...).Set(float64(u.MaxRSS))
	}
}
