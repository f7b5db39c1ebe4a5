package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Client counts what the clients of the API server do. It implements kube.Requests and
// kube.Watches. Paths of requests are no labels: they name objects, whose number has no bound.
type Client struct {
	results                  *prometheus.CounterVec
	latency, held            *prometheus.HistogramVec
	watchErrors, interrupted *prometheus.CounterVec
}

func newClient(d *declared) Client {
	return Client{
		results:     d.counter("kubernetes_client_request_result_total", `Responses of the API server by HTTP status; "<error>" if there was none.`, "host", "verb", "code"),
		latency:     d.fine("kubernetes_client_request_latency_seconds", "Time until the API server responded.", "host", "verb"),
		held:        d.fine("kubernetes_client_rate_limiter_latency_seconds", "Time that requests waited for the operator's own rate limit.", "host", "verb"),
		watchErrors: d.counter("kubernetes_client_watch_errors_total", "Failed requests to list or to watch.", "error_type"),
		interrupted: d.counter("factory_informer_dead_total", "Watches that were interrupted; each is retried until it works again.", "gvr", "namespace"),
	}
}

// Answered implements kube.Requests. Each attempt of a retry is one answer.
func (c Client) Answered(host, verb, code string) {
	c.results.WithLabelValues(host, verb, code).Inc()
}

// Took implements kube.Requests.
func (c Client) Took(host, verb string, d time.Duration) {
	c.latency.WithLabelValues(host, verb).Observe(d.Seconds())
}

// Held implements kube.Requests.
func (c Client) Held(host, verb string, d time.Duration) {
	c.held.WithLabelValues(host, verb).Observe(d.Seconds())
}

// WatchFailed implements kube.Watches.
func (c Client) WatchFailed(kind string) { c.watchErrors.WithLabelValues(kind).Inc() }

// WatchInterrupted implements kube.Watches.
func (c Client) WatchInterrupted(resource, namespace string) {
	c.interrupted.WithLabelValues(resource, namespace).Inc()
}
