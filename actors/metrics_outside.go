package actors

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/messages"
)

// ClientMetrics counts what the clients of the API server do. It is what package kube
// reports its observations to.
type ClientMetrics struct {
	results               *prometheus.CounterVec
	latency, held         *prometheus.HistogramVec
	watchErrors, watchers *prometheus.CounterVec
	wentBack              *prometheus.CounterVec
}

var (
	_ kube.Requests = (*ClientMetrics)(nil)
	_ kube.Watches  = (*ClientMetrics)(nil)
)

func (m *Metrics) clientMetrics() *ClientMetrics {
	return &ClientMetrics{
		results:     m.counter("kubernetes_client_request_result_total", `Answers of the API server by HTTP status; "<error>" when none came.`, "host", "verb", "code"),
		latency:     m.fine("kubernetes_client_request_latency_seconds", "Time until the API server answered.", "host", "verb"),
		held:        m.fine("kubernetes_client_rate_limiter_latency_seconds", "Time that the operator's own limit held requests up.", "host", "verb"),
		watchErrors: m.counter("kubernetes_client_watch_errors_total", "Failed requests to list or to watch.", "error_type"),
		watchers:    m.counter("factory_informer_dead_total", "Watches that were interrupted; each is tried again until it is back.", "gvr", "namespace"),
		wentBack:    m.counter("kubernetes_client_watch_went_back_total", "Watches that saw the API server go back to an earlier state, as after a restore of etcd; each read all again.", "gvr", "namespace"),
	}
}

// Answered implements kube.Requests.
func (c *ClientMetrics) Answered(host, verb, code string) {
	c.results.WithLabelValues(host, verb, code).Inc()
}

// Took implements kube.Requests.
func (c *ClientMetrics) Took(host, verb string, d time.Duration) {
	c.latency.WithLabelValues(host, verb).Observe(d.Seconds())
}

// Held implements kube.Requests.
func (c *ClientMetrics) Held(host, verb string, d time.Duration) {
	c.held.WithLabelValues(host, verb).Observe(d.Seconds())
}

// WatchFailed implements kube.Watches.
func (c *ClientMetrics) WatchFailed(kind string) { c.watchErrors.WithLabelValues(kind).Inc() }

// WatchInterrupted implements kube.Watches.
func (c *ClientMetrics) WatchInterrupted(resource, namespace string) {
	c.watchers.WithLabelValues(resource, namespace).Inc()
}

// WentBack implements kube.Watches.
func (c *ClientMetrics) WentBack(resource, namespace string) {
	c.wentBack.WithLabelValues(resource, namespace).Inc()
}

// helmMetrics are what Helm does for modules.
type helmMetrics struct {
	seconds, operations *prometheus.HistogramVec
	fallbacks           prometheus.Counter
}

func (m *Metrics) helmMetrics() helmMetrics {
	return helmMetrics{
		seconds:    m.histogram("module_helm_seconds", "Duration of the Helm part of module runs.", "module", "activation"),
		operations: m.histogram("helm_operation_seconds", "Duration of the parts of it: template, check-upgrade, upgrade (installs, too), fallback.", "module", "activation", "operation"),
		fallbacks:  m.counter("helm_fallback_total", "Repairs of releases that could not simply be upgraded: interrupted, corrupted, or failed at the first install.").WithLabelValues(),
	}
}

// helmOperated notes how long an operation of Helm took, also one that failed.
func (m *Metrics) helmOperated(module string, t messages.Task, o helm.Operation, seconds float64) {
	m.helm.operations.WithLabelValues(module, t.Cause.First().Activation, string(o)).Observe(seconds)
	if o == helm.Fallback {
		m.helm.fallbacks.Inc()
	}
}

func (m *Metrics) helmRan(module string, t messages.Task, seconds float64) {
	m.helm.seconds.WithLabelValues(module, t.Cause.First().Activation).Observe(seconds)
}

// aliases are the names that the first generations of dashboards know: sums over all
// hooks and modules (X11).
type aliases struct{ hookErrors, hookAllowed, moduleErrors prometheus.Counter }

func newAliases(prefix string) aliases {
	alias := func(name, of string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: "Old name of the sum over " + of + "."})
	}
	return aliases{
		hookErrors:   alias("hook_errors", prefix+"module_hook_errors_total and "+prefix+"global_hook_errors_total"),
		hookAllowed:  alias("hook_allowed_errors", prefix+"module_hook_allowed_errors_total and "+prefix+"global_hook_allowed_errors_total"),
		moduleErrors: alias("module_run_errors", prefix+"module_run_errors_total"),
	}
}

// ShowOldNames puts the aliases on the page.
func (m *Metrics) ShowOldNames() {
	m.register(m.old.hookErrors)
	m.register(m.old.hookAllowed)
	m.register(m.old.moduleErrors)
}
