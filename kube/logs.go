package kube

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// RedirectKlog redirects the log of the Kubernetes libraries to log: their
// information as debug, their errors as warnings, because the caller
// that failed reports them, too, with more context. Bodies of
// requests and answers are never logged: they hold Secrets.
//
// The libraries' logger is global to the process: call this once, from main,
// before the first goroutine.
func RedirectKlog(log *slog.Logger) {
	klog.SetSlogLogger(slog.New(lowered{log.Handler()}))
}

// lowered maps levels: error becomes warn, everything else debug.
type lowered struct{ slog.Handler }

func lower(level slog.Level) slog.Level {
	if level >= slog.LevelError {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// mostDetailed is the level of klog's V(6): a line for each request. V(7) and above
// show headers and bodies, with whole Secrets among them (J9).
const mostDetailed = slog.Level(-6)

func (h lowered) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= mostDetailed && h.Handler.Enabled(ctx, lower(level))
}

func (h lowered) Handle(ctx context.Context, record slog.Record) error {
	record.Level = lower(record.Level)
	return h.Handler.Handle(ctx, record)
}

func (h lowered) WithAttrs(attrs []slog.Attr) slog.Handler {
	return lowered{h.Handler.WithAttrs(attrs)}
}

func (h lowered) WithGroup(name string) slog.Handler {
	return lowered{h.Handler.WithGroup(name)}
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
