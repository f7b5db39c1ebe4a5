package kube

import (
	"context"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/metrics"
)

// Requests observes the requests of all clients, Helm's included, for metrics. It is
// called from many goroutines.
type Requests interface {
	// Answered: code is the HTTP status, or "<error>" when no answer came.
	Answered(host, verb, code string)
	// Took is the time until the answer, Held the time that the client's own limit held the
	// request up before it was sent.
	Took(host, verb string, d time.Duration)
	Held(host, verb string, d time.Duration)
}

// ObserveRequests reports every request to r from now on.
//
// The libraries' observer is global to the process: call this once, from main,
// before the first client is made. A second call has no effect.
func ObserveRequests(r Requests) {
	metrics.Register(metrics.RegisterOpts{
		RequestResult:      results{r},
		RequestLatency:     durations(r.Took),
		RateLimiterLatency: durations(r.Held),
	})
}

// results and durations are adapters for the interfaces of the libraries.
type (
	results   struct{ r Requests }
	durations func(host, verb string, d time.Duration)
)

// Increment implements metrics.ResultMetric.
func (r results) Increment(_ context.Context, code, method, host string) {
	r.r.Answered(host, method, code)
}

// Observe implements metrics.LatencyMetric. Of the address only the host is kept: there
// are as many paths as namespaces and kinds.
func (f durations) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	f(u.Host, verb, took)
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
