package kube

import (
	"context"
	"log/slog"
	"sync"

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

// maxWarnings bounds how many texts of warnings are remembered: a server may put variable parts
// into them. Later ones are logged at debug level.
const maxWarnings = 1000

// warnings logs the warnings of the API server (deprecated versions, unknown
// fields). They come with each request, so each text is a warning once and
// debug ever after.
type warnings struct {
	log *slog.Logger

	mu   sync.Mutex
	seen map[string]bool
}

var _ rest.WarningHandlerWithContext = (*warnings)(nil)

func newWarnings(log *slog.Logger) *warnings {
	return &warnings{log: log, seen: map[string]bool{}}
}

// HandleWarningHeaderWithContext is called for each Warning header; 299 is the
// only code that Kubernetes defines.
func (w *warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	if code != 299 || text == "" {
		return
	}
	if p, ok := ctx.Value(patchWarningsKey{}).(*patchWarnings); ok { // it has the object (J13)
		p.log(text)
		return
	}
	level := slog.LevelWarn
	if !w.first(text) {
		level = slog.LevelDebug
	}
	w.log.Log(ctx, level, "warning of the API server", "text", text)
}

func (w *warnings) first(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[text] || len(w.seen) >= maxWarnings {
		return false
	}
	w.seen[text] = true
	return true
}
