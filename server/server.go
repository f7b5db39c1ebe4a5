package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/actors/plan"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// Source is what the pages show. All functions are called in the goroutines of requests, several at
// a time, so they must be safe for concurrent use. What may be nil says so.
type Source struct {
	Inspector *supervisor.Inspector
	// Converge returns the state of the converge. It answers before the start, too, with an empty
	// Phase.
	Converge func() view.ConvergeStatus
	// Metrics are those of the operator, HookMetrics those that hooks report.
	Metrics, HookMetrics prometheus.Gatherer
	Version              string
	// Authorize guards all public pages but the probes; nil when everybody may see them.
	Authorize Authorize
	// Hanging lists the hooks that run for too long.
	Hanging func() []view.RunningHook
	// History has the last runs of hooks.
	History *History
	// NotInForce describes, for each module or messages.GlobalHooks, how its files on disk differ from
	// those in force. It reads the disk, and the pages change the map that it returns.
	NotInForce func() map[string]string
	// Observed reports whether the operator has seen the ConfigMap as it is in the cluster now. It costs a request to
	// the API server.
	Observed func(ctx context.Context) (bool, error)
	// Plan returns what the operator would do. It makes dry runs of charts, which may take minutes.
	Plan func(ctx context.Context, request plan.Request) (plan.Plan, error)
	// Ask sends a question to the actor with this path below the root, and waits for the answer
	// until ctx ends. It fails while there are no actors.
	Ask func(ctx context.Context, path string, question any) (any, error)
	// Render renders the chart of a module with its values now.
	Render func(ctx context.Context, module string, request plan.RenderRequest) (plan.Rendered, error)
	// Parameters can be changed while the operator runs.
	Parameters Parameters
	// Cluster is the address of the API server, ConfigMap the NAMESPACE/NAME of the one with
	// values. The debug address sends them as headers, unless they are empty.
	Cluster, ConfigMap string
	// Hide returns a text without known secrets.
	Hide func(string) string
	// Leadership returns who leads among several replicas; nil when this one is alone.
	Leadership func() view.Leadership
}

// Public serves probes, metrics and the list of queues: nothing in it holds values. Everybody can
// connect, so each answer has a deadline: a client that does not read it must not occupy a
// connection (J8).
func Public(s Source) http.Handler {
	pages := authorized(router{s, public}.handler(), s.Authorize)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout)) // a recorder of tests has none
		pages.ServeHTTP(w, r)
	})
}

// audience are the clients that may see a page. Output of failed hooks and of Helm may contain secrets, so
// public pages refer to the log instead.
type audience bool

const (
	public  audience = false
	insider audience = true
)

// Debug serves what only users of the machine may see (J7). It keeps pages of other sites that are
// open in a browser on this machine away in two ways: cross-origin requests that change something
// are refused, and so are requests for another host name. The deadline of an answer begins when it has
// been made (discreet).
func Debug(s Source) http.Handler {
	pages := http.NewCrossOriginProtection().Handler(byItsOwnName(newGate().handler(router{s, insider}.handler())))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Also on answers that refuse a request: a client reads them before anything else.
		for header, value := range map[string]string{ClusterHeader: s.Cluster, ConfigMapHeader: s.ConfigMap} {
			if value != "" {
				w.Header().Set(header, value)
			}
		}
		pages.ServeHTTP(w, r)
	})
}

// Headers that identify the operator: the address of its API server, and the ConfigMap with its
// values. A command that changes values compares them with its own, so that it does not let the
// operator of another cluster validate them.
const (
	ClusterHeader   = "Addon-Operator-Cluster"
	ConfigMapHeader = "Addon-Operator-Configmap"
)

// byItsOwnName refuses requests on loopback whose Host is another name. The owner of a site can let
// its name resolve to 127.0.0.1; for the browser the pages there then have the origin of that site,
// and its scripts may read them (DNS rebinding, J7). The unix socket has no TCP address and accepts
// any name.
func byItsOwnName(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if host := (&url.URL{Host: r.Host}).Hostname(); ok && local.IP.IsLoopback() && host != "localhost" && net.ParseIP(host) == nil {
			text(w, http.StatusForbidden, fmt.Sprintf("request for the host %q refused; on loopback use localhost or the address, such as http://%s\n", host, local))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// readyz answers 200 after the first converge, in a follower when it could lead (L3), else 500.
// With ?verbose it lists the conditions behind that (J1).
func (s router) readyz(w http.ResponseWriter, r *http.Request) {
	status, word := s.readiness()
	if !r.URL.Query().Has("verbose") {
		text(w, status, word+"\n")
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, word)
	writeConditions(w, s.tree(s.who))
	for _, h := range s.Hanging() {
		fmt.Fprintln(w, h)
	}
}

// converge answers with the fixed words of J3. Existing scripts search the text for them, so that
// it stays exactly as it is. The JSON has all words, with the number of tasks in the main queue for a
// converge in progress, and booleans for the other states.
func (s router) converge(w http.ResponseWriter, r *http.Request) {
	c, tasks := s.Converge(), queueLength(s.Inspector.Tree(), messages.MainQueue)
	reloading, lines, data := c.Phase == view.ConvergeReloading, "", map[string]any{}
	for _, state := range []struct {
		word       string
		is, counts bool
	}{
		{"STARTUP_CONVERGE_NOT_STARTED", !c.Ready && !reloading, false},
		{"STARTUP_CONVERGE_IN_PROGRESS", !c.Ready && reloading, true},
		{"STARTUP_CONVERGE_DONE", c.Ready, false},
		{"CONVERGE_IN_PROGRESS", c.Ready && reloading, true},
		{"CONVERGE_WAIT_TASK", c.Ready && !reloading, false},
	} {
		switch data[state.word] = state.is; {
		case state.counts && state.is:
			data[state.word] = tasks
			lines += fmt.Sprintf("%s: %d tasks\n", state.word, tasks)
		case state.counts:
			data[state.word] = 0
		case state.is:
			lines += state.word + "\n"
		}
	}
	if r.URL.Query().Get("output") == "json" {
		writeJSON(w, data)
		return
	}
	text(w, http.StatusOK, lines)
}

// actors answers /actors: the dump of all mailboxes.
func (s router) actors(*http.Request) (any, error) {
	tree := s.Inspector.Tree()
	return display{data: tree, text: func(w io.Writer, _ bool) { _ = supervisor.WriteText(w, tree) }}, nil // the client has gone
}

// text answers with a sentence. It ends with a line end, for those who read it in a terminal.
func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// How long a client may take, and how much it may send before its request is known (J8). There is
// no limit for profiles: they last as long as their client wants.
const (
	headerTimeout  = 5 * time.Second
	maxHeaderBytes = 8 << 10
	requestTimeout = time.Minute
	answerTimeout  = 15 * time.Second // of public pages, which take milliseconds
	debugAnswer    = time.Minute      // to write what has been made, to a client that reads
	idleTimeout    = 2 * time.Minute
)

// newServer makes a server on which each phase of a connection has a limit, and the number of
// connections, too. WriteTimeout is not set, because the two addresses differ in it.
func newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnState: newConnections(maxConnections).changed,
	}
}

// Serve answers on a TCP address, or on a unix socket when address is "unix:" and a path, until ctx
// is done. It returns when it listens, or with an error when it cannot; later errors are logged.
// When ctx is done, requests in progress are cut: the process ends with them.
func Serve(ctx context.Context, address string, h http.Handler, log *slog.Logger) error {
	listener, err := listen(ctx, address)
	if err != nil {
		return err
	}
	serveOn(ctx, newServer(h), listener, address, log)
	return nil
}

// serveOn serves in a goroutine of its own. Close ends Serve with ErrServerClosed, which is no
// failure.
func serveOn(ctx context.Context, srv *http.Server, listener net.Listener, address string, log *slog.Logger) {
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	go func() {
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the HTTP server has ended", "address", address, "err", err)
		}
	}()
}

// An operator that was killed a moment ago may hold its address still: the kernel closes its files after its memory is
// freed, and a process that it was about to start as a hook has them until it executes the hook.
const (
	addressTimeout = 2 * time.Second
	addressPause   = 20 * time.Millisecond
)

// listen opens an address. A socket is for the user of the operator alone (J7), by its mode and by
// that of its directory, if it is created here; a socket file that exists already is replaced.
func listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	path, unix := strings.CutPrefix(address, "unix:")
	if !unix {
		l, err := config.Listen(ctx, "tcp", address)
		for began := time.Now(); errors.Is(err, syscall.EADDRINUSE) && time.Since(began) < addressTimeout; l, err = config.Listen(ctx, "tcp", address) {
			time.Sleep(addressPause)
		}
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w; is another operator running? set another address or port", address, err)
		}
		return l, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("debug socket: %w", err)
	}
	// A killed operator leaves its socket behind. Nothing else is removed: the path comes from a person, and Lstat
	// does not follow a link.
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(path) // else it cannot be opened
	}
	l, err := config.Listen(ctx, "unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600) // J7
	}
	if err != nil {
		return nil, fmt.Errorf("debug socket: %w; remove what is there, or choose another path", err)
	}
	return l, nil
}
