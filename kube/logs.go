package kube

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// RedirectKlog redirects the log of the Kubernetes libraries to log, as debug: the caller that failed reports an error,
// too, with more context. V(6) has a line for each request. V(7) and above would show headers and bodies, with whole
// Secrets among them (J9).
//
// The libraries' logger is global to the process: call this once, from main,
// before the first goroutine.
func RedirectKlog(log *slog.Logger) {
	debug := funcr.New(func(_, text string) { log.Debug(text) }, funcr.Options{Verbosity: 6})
	klog.SetLoggerWithOptions(debug, klog.ContextualLogger(true))
}

// maxWarnings is how many warnings are logged in a context of WithAbout and those that are made of it.
const maxWarnings = 20

type aboutKey struct{}

// about says whose request the API server warns about.
type about struct {
	attributes []any
	count      *atomic.Int64
}

// WithAbout returns a context in which warnings of the API server are logged with more attributes: whose request it is.
func WithAbout(ctx context.Context, attributes ...any) context.Context {
	a, ok := ctx.Value(aboutKey{}).(about)
	if !ok {
		a.count = &atomic.Int64{}
	}
	a.attributes = slices.Concat(a.attributes, attributes)
	return context.WithValue(ctx, aboutKey{}, a)
}

// warnings logs the warnings of the API server (deprecated versions, unknown fields), with the attribute err: they come
// with each request, and the log repeats what has one at growing intervals (J13).
type warnings struct{ log *slog.Logger }

var _ rest.WarningHandlerWithContext = warnings{}

// HandleWarningHeaderWithContext is called for each Warning header; 299 is the
// only code that Kubernetes defines.
func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	a, ok := ctx.Value(aboutKey{}).(about)
	if code == 299 && text != "" && (!ok || a.count.Add(1) <= maxWarnings) {
		w.log.WarnContext(ctx, "warning of the API server", append(slices.Clone(a.attributes), "err", text)...)
	}
}
