package kube

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/testkit/devclustertest"
)

// tally notes what observers receive.
type tally struct {
	mu    sync.Mutex
	lines []string
}

func (t *tally) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *tally) has(begin string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.lines, func(line string) bool { return strings.HasPrefix(line, begin) })
}

func (t *tally) WatchFailed(kind string) { t.add("failed %s", kind) }
func (t *tally) WatchInterrupted(resource, namespace string) {
	t.add("interrupted %s in %s", resource, namespace)
}

// I2: each word of error_type stands for something a person does something about.
func TestKindsOfWatchFailures(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for want, errs := range map[string][]error{
		"expired":    {apierrors.NewResourceExpired("old"), apierrors.NewGone("old")}, //nolint:staticcheck // older API servers answer so
		"forbidden":  {apierrors.NewForbidden(pods, "", nil)},
		"server":     {apierrors.NewInternalError(io.EOF), apierrors.NewServiceUnavailable("etcd"), apierrors.NewTooManyRequests("later", 1)},
		"connection": {io.EOF, context.DeadlineExceeded, &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}},
	} {
		for _, err := range errs {
			if got := failureKind(fmt.Errorf("list: %w", err)); got != want {
				t.Errorf("%v is %q, want %q", err, got, want)
			}
		}
	}
}

// observed counts all requests of this process. The libraries take one observer, and it must be
// there before the first request: watches of a test may still be ending in the next one.
var observed = observing() //nolint:gochecknoglobals // of the process, not of a test

func observing() *prometheus.Registry {
	r := Requests{
		Answers: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "answered"}, []string{"host", "verb", "code"}),
		Took:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "took"}, []string{"host", "verb"}),
		Held:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "held"}, []string{"host", "verb"}),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.Answers, r.Took, r.Held)
	ObserveRequests(r)
	return registry
}

// I2: requests of all clients are reported with host, verb and code.
func TestRequestsAreObserved(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	must(t, second(world.client.ConfigMap(world.Namespace(t), "none").Read(t.Context())))
	host := strings.TrimPrefix(world.RESTConfig().Host, "https://")
	families, err := observed.Gather()
	must(t, err)
	var seen []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() { // sorted by name
				line += " " + l.GetValue()
			}
			seen = append(seen, line)
		}
	}
	for _, want := range []string{"answered 404 " + host + " GET", "took " + host + " GET", "held " + host + " GET"} {
		if !slices.Contains(seen, want) {
			t.Errorf("not counted: %s", want)
		}
	}
}
