package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// Source is what the pages show.
type Source struct {
	Inspector *supervisor.Inspector
	// Converge returns the state of the converge; it answers before the start, too.
	Converge func() view.ConvergeStatus
	// Metrics of the operator, and what hooks report.
	Metrics, HookMetrics prometheus.Gatherer
	Version              string
	// Authorize guards the public pages but probes; nil when everybody may see them.
	Authorize Authorize
	// Hanging lists the hooks that run for too long; nil when this is not observed.
	Hanging func() []view.RunningHook
	// Loops says of each module, or global-hooks, how its hooks run in a loop; nil when this is not observed.
	Loops func() map[string]string
	// History has the last runs of hooks; nil when they are not kept.
	History *History
	// NotInForce says of each module, or global-hooks, how its files on disk differ from what is in force; nil when this is not
	// observed.
	NotInForce func() map[string]string
	// Observed reports whether the operator has seen the ConfigMap as it is in the cluster now; nil when that is not known.
	Observed func(ctx context.Context) (bool, error)
	// Plan returns what the operator would do.
	Plan func(ctx context.Context, request view.PlanRequest) (view.Plan, error)
	// Ask gives a question to the actor with this path below the root.
	Ask func(ctx context.Context, path string, question any) (any, error)
	// Render renders the chart of a module with its values now; nil when it is not available.
	Render func(ctx context.Context, module string, request view.RenderRequest) (view.Rendered, error)
	// Releases returns the newest revisions of a module's release, at most so many, and Compare what differs between two of them,
	// where an error may be a *view.NoRevisionError; nil when they cannot be read.
	Releases func(ctx context.Context, module string, most int) (view.ReleaseHistory, error)
	Compare  func(ctx context.Context, module string, request view.DiffRequest) (view.RevisionDiff, error)
	// Parameters can be changed while the operator runs; nil when there are none.
	Parameters Parameters
	// Cluster is the address of the API server, ConfigMap is NAMESPACE/NAME of that with values. The debug address tells both in
	// headers; empty: it does not.
	Cluster, ConfigMap string
	// Hide gives a text without known secrets; nil when there are none.
	Hide func(string) string
	// Leadership returns who leads among several replicas; nil when this one is alone.
	Leadership func() view.Leadership
	// Act writes requests of people to objects of kind Module; nil: the page offers none.
	Act Act

	pageToken string // of the live page on the debug address
}

// Public serves probes, metrics and the list of queues: nothing in it holds values. Everybody
// can ask, so a client that does not read the answer is not waited for.
func Public(s Source) http.Handler {
	pages := authorized(router{s, public}.handler(), s.Authorize)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout)) // a recorder of tests has none
		pages.ServeHTTP(w, r)
	})
}

// audience is who may see a page. What hooks and Helm print when they fail may hold
// secrets, so the public is referred to the log.
type audience bool

const (
	public  audience = false
	insider audience = true
)

// Debug serves what only users of the machine may see. Pages of other sites that are open
// in a browser there cannot change or read anything.
func Debug(s Source) http.Handler {
	s.pageToken = rand.Text()
	pages := http.NewCrossOriginProtection().Handler(byItsOwnName(newGate().handler(router{s, insider}.handler())))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for header, value := range map[string]string{ClusterHeader: s.Cluster, ConfigMapHeader: s.ConfigMap} {
			if value != "" {
				w.Header().Set(header, value)
			}
		}
		pages.ServeHTTP(w, r)
	})
}

// Headers in which the operator says with which API server it works, and where its values are, so that a command which
// changes them does not ask the operator of another cluster.
const (
	ClusterHeader   = "Addon-Operator-Cluster"
	ConfigMapHeader = "Addon-Operator-Configmap"
)

// byItsOwnName refuses requests to loopback that were meant for another name: a site can
// have its name lead to this machine, and its pages then count as ours for the browser (J7).
func byItsOwnName(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if host := hostOf(r.Host); ok && local.IP.IsLoopback() && host != "localhost" && net.ParseIP(host) == nil {
			text(w, http.StatusForbidden, fmt.Sprintf("asked as %q; on loopback this address is asked as localhost or by its number, as http://%s\n", host, local))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf takes the port off, and the brackets of an IPv6 address.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

// probes are the pages that say in short how the operator is; they are public, too.
type probes struct {
	Source
	who audience
}

// readyz is 200 after the first converge, in a follower when it could lead (L3). With ?verbose it says what it knows (J1).
func (s probes) readyz(w http.ResponseWriter, r *http.Request) {
	status, word := s.readiness()
	if !r.URL.Query().Has("verbose") {
		text(w, status, word+"\n")
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, word)
	writeConditions(w, s.tree(s.who))
	for _, h := range s.hanging() {
		fmt.Fprintln(w, h)
	}
}

// converge answers in the words that scripts know (J3).
func (s probes) converge(w http.ResponseWriter, r *http.Request) {
	c := s.Converge()
	tasks := queueLength(s.Inspector.Tree(), messages.MainQueue)
	if r.URL.Query().Get("output") == "json" {
		writeJSON(w, convergeJSON(c, tasks))
		return
	}
	switch {
	case !c.Ready && c.Phase == view.ConvergeReloading:
		text(w, http.StatusOK, fmt.Sprintf("STARTUP_CONVERGE_IN_PROGRESS: %d tasks\n", tasks))
	case !c.Ready:
		text(w, http.StatusOK, "STARTUP_CONVERGE_NOT_STARTED\n")
	case c.Phase == view.ConvergeReloading:
		text(w, http.StatusOK, fmt.Sprintf("STARTUP_CONVERGE_DONE\nCONVERGE_IN_PROGRESS: %d tasks\n", tasks))
	default:
		text(w, http.StatusOK, "STARTUP_CONVERGE_DONE\nCONVERGE_WAIT_TASK\n")
	}
}

func convergeJSON(c view.ConvergeStatus, tasks int) map[string]any {
	reloading := c.Phase == view.ConvergeReloading
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

// actors is the dump of all mailboxes.
func (s actorPages) actors(*http.Request) (any, error) {
	tree := s.Inspector.Tree()
	return display{tree, func(w io.Writer) { _ = supervisor.WriteText(w, tree) }}, nil // the client has gone
}

func (s probes) queueText(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	writeQueues(w, s.tree(s.who))
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// How long the other side may take, and how much it may send before it is known who asks for what (J8). On the debug address
// an answer may take as long as it does: a profile lasts as long as its client wants.
const (
	headerTimeout  = 5 * time.Second
	maxHeaderBytes = 8 << 10
	requestTimeout = time.Minute
	answerTimeout  = 15 * time.Second // of public pages, which take milliseconds
	idleTimeout    = 2 * time.Minute
)

// newServer makes a server to which no connection is left open forever, and not too many at a time.
func newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnState: newConnections(maxConnections).changed,
	}
}

// Serve answers on a TCP address, or on a unix socket when address is "unix:" and a path,
// until ctx is done. It returns when the address is taken; errors after that are logged.
func Serve(ctx context.Context, address string, h http.Handler, log *slog.Logger) error {
	listener, err := listen(ctx, address)
	if err != nil {
		return err
	}
	serveOn(ctx, newServer(h), listener, address, log)
	return nil
}

func serveOn(ctx context.Context, srv *http.Server, listener net.Listener, address string, log *slog.Logger) {
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	go func() {
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the HTTP server has ended", "address", address, "err", err)
		}
	}()
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
