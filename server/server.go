package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"addon-operator/messages"
	"addon-operator/supervisor"
)

// Source is what the pages show.
type Source struct {
	Inspector *supervisor.Inspector
	// Converge tells how far the operator is; it answers before the start, too.
	Converge func() messages.ConvergeStatus
	// Metrics of the operator, and what hooks report.
	Metrics, HookMetrics prometheus.Gatherer
	Version              string
	// Ask gives a question to the actor with this path below the root.
	Ask func(ctx context.Context, path string, question any) (any, error)
}

// Public serves probes, metrics and the list of queues: nothing in it holds values.
func Public(s Source) http.Handler { return s.pages(public) }

// audience tells who may see a page. What hooks and Helm print when they fail may hold
// secrets, so the public is referred to the log.
type audience bool

const (
	public  audience = false
	insider audience = true
)

func (s Source) pages(who audience) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { s.readyz(w, r, who) })
	mux.HandleFunc("GET /queue", func(w http.ResponseWriter, _ *http.Request) { s.queueText(w, who) })
	mux.HandleFunc("GET /status/converge", s.converge)
	// Users look for the metrics of hooks on the first page, too (I1).
	both := prometheus.Gatherers{s.Metrics, s.HookMetrics}
	mux.Handle("GET /metrics", promhttp.HandlerFor(both, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.Handle("GET /metrics/hooks", promhttp.HandlerFor(s.HookMetrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	return mux
}

// Debug serves what only somebody on the machine may see.
func Debug(s Source) http.Handler {
	mux := http.NewServeMux()
	pages := s.pages(insider)
	mux.Handle("/", pages)
	mux.Handle("GET /queue", pages) // itself, and no redirect to what lies below it
	mux.HandleFunc("GET /actors", s.actors)
	s.valuePages(mux)
	mux.HandleFunc("GET /queue/{page...}", s.queuePage)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

func (s Source) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, `<!doctype html><title>addon-operator</title><h1>addon-operator %s</h1>
<ul><li><a href="/healthz">healthz</a><li><a href="/readyz?verbose">readyz</a><li><a href="/metrics">metrics</a>
<li><a href="/queue">queue</a><li><a href="/status/converge">status/converge</a></ul>
`, s.Version)
}

// readyz is 200 after the first converge. With ?verbose it says what it knows (J1).
func (s Source) readyz(w http.ResponseWriter, r *http.Request, who audience) {
	status, word := http.StatusInternalServerError, "not ready: the first converge is not over"
	if s.Converge().Ready {
		status, word = http.StatusOK, "ok"
	}
	if !r.URL.Query().Has("verbose") {
		text(w, status, word+"\n")
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, word)
	writeConditions(w, s.tree(who))
}

// converge answers in the words that scripts know (J3).
func (s Source) converge(w http.ResponseWriter, r *http.Request) {
	c := s.Converge()
	tasks := queueLength(s.Inspector.Tree(), messages.MainQueue)
	if r.URL.Query().Get("output") == "json" {
		writeJSON(w, convergeJSON(c, tasks))
		return
	}
	switch {
	case !c.Ready && c.Phase == messages.ConvergeReloading:
		text(w, http.StatusOK, fmt.Sprintf("STARTUP_CONVERGE_IN_PROGRESS: %d tasks\n", tasks))
	case !c.Ready:
		text(w, http.StatusOK, "STARTUP_CONVERGE_NOT_STARTED\n")
	case c.Phase == messages.ConvergeReloading:
		text(w, http.StatusOK, fmt.Sprintf("STARTUP_CONVERGE_DONE\nCONVERGE_IN_PROGRESS: %d tasks\n", tasks))
	default:
		text(w, http.StatusOK, "STARTUP_CONVERGE_DONE\nCONVERGE_WAIT_TASK\n")
	}
}

func convergeJSON(c messages.ConvergeStatus, tasks int) map[string]any {
	reloading := c.Phase == messages.ConvergeReloading
	count := func(yes bool) int {
		if yes {
			return tasks
		}
		return 0
	}
	return map[string]any{
		"STARTUP_CONVERGE_NOT_STARTED": !c.Ready && !reloading,
		"STARTUP_CONVERGE_IN_PROGRESS": count(!c.Ready && reloading),
		"STARTUP_CONVERGE_DONE":        c.Ready,
		"CONVERGE_IN_PROGRESS":         count(c.Ready && reloading),
		"CONVERGE_WAIT_TASK":           c.Ready && !reloading,
	}
}

// actors is the dump of all mailboxes: text, or JSON with ?output=json.
func (s Source) actors(w http.ResponseWriter, r *http.Request) {
	tree := s.Inspector.Tree()
	if r.URL.Query().Get("output") == "json" {
		writeJSON(w, tree)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_ = supervisor.WriteText(w, tree) // the client has gone
}

func (s Source) queueText(w http.ResponseWriter, who audience) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	writeQueues(w, s.tree(who))
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client has gone
}

// Serve answers on a TCP address, or on a unix socket when address is "unix:" and a path,
// until ctx is done. It returns when the address is taken; errors after that are logged.
func Serve(ctx context.Context, address string, h http.Handler, log *slog.Logger) error {
	listener, err := listen(ctx, address)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	go func() {
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the HTTP server has ended", "address", address, "err", err)
		}
	}()
	return nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	path, unix := unixPath(address)
	if !unix {
		l, err := config.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w; is another operator running? set another address or port", address, err)
		}
		return l, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("debug socket: %w", err)
	}
	if err := removeSocket(path); err != nil {
		return nil, err
	}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("debug socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil { // J7
		_ = l.Close()
		return nil, fmt.Errorf("debug socket: %w", err)
	}
	return l, nil
}

// removeSocket removes what an operator left behind that was killed, and nothing else:
// the path comes from a person.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("debug socket: %w", err)
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("debug socket: %s exists and is no socket; remove it or choose another path", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("debug socket: remove the old one: %w", err)
	}
	return nil
}
