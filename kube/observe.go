package kube

import (
	"context"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/metrics"
)

// Requests are metrics of the requests of all clients, Helm's included.
type Requests struct {
	Answers *prometheus.CounterVec // by host, verb and the HTTP status, or "<error>" when no answer came
	// Took is the time until the answer, Held the time that the client's own limit held the
	// request up before it was sent, in seconds, by host and verb.
	Took, Held *prometheus.HistogramVec
}

// ObserveRequests counts every request from now on. Each attempt of a retry is one.
//
// The libraries' observer is global to the process: call this once, from main,
// before the first client is made. A second call has no effect.
func ObserveRequests(r Requests) {
	metrics.Register(metrics.RegisterOpts{
		RequestResult: results{r.Answers}, RequestLatency: durations{r.Took}, RateLimiterLatency: durations{r.Held},
	})
}

// results and durations are adapters for the interfaces of the libraries.
type (
	results   struct{ *prometheus.CounterVec }
	durations struct{ *prometheus.HistogramVec }
)

// Increment implements metrics.ResultMetric.
func (r results) Increment(_ context.Context, code, method, host string) {
	r.WithLabelValues(host, method, code).Inc()
}

// Observe implements metrics.LatencyMetric. Of the address only the host is kept: there
// are as many paths as namespaces and kinds.
func (d durations) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	d.WithLabelValues(u.Host, verb).Observe(took.Seconds())
}

// Watches observes what happens to watches, for metrics. It is called from many goroutines.
type Watches interface {
	// WatchFailed: a request to list or to watch failed. The kind of error is one of few
	// words, for example "forbidden" or "connection".
	WatchFailed(kind string)
	// WatchInterrupted: a watch that worked fails from now on until it is back. The resource
	// reads "apps/v1/deployments"; an empty namespace means all.
	WatchInterrupted(resource, namespace string)
}

// unwatched is the observer when none is given.
type unwatched struct{}

func (unwatched) WatchFailed(string)              {}
func (unwatched) WatchInterrupted(string, string) {}

// failureKind is the error of a list or watch in one word, for a label of a metric: the words must
// stay few. The log has the error.
func failureKind(err error) string {
	switch {
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return "expired"
	case apierrors.IsForbidden(err):
		return "forbidden"
	case apierrors.ReasonForError(err) != "":
		return "server"
	}
	return "connection"
}
