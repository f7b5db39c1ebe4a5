package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	c, tasks := s.Converge(), queueLength(s.Inspector.Nodes(), messages.MainQueue)
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
	tree := s.Inspector.Nodes()
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
func newServer(h http.Handler) *http.Server { return serverFor(h, maxConnections) }

// serverFor is newServer with another number of connections.
func serverFor(h http.Handler, most int) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnState: (&connections{limit: most, open: map[net.Conn]occupation{}}).changed,
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

// standby returns who leads, and whether that is another replica than this one. A replica alone is
// no follower.
func (s Source) standby() (view.Leadership, bool) {
	if s.Leadership == nil {
		return view.Leadership{}, false
	}
	l := s.Leadership()
	return l, !l.Leading
}

// readiness is what the probe answers. A follower is ready when it has read what a leader begins with, and competes
// for the Lease, whatever its leader does (L3): a rolling update waits until a new replica is ready, so a leader that
// does not converge would otherwise block the very update that repairs it.
func (s router) readiness() (status int, word string) {
	if waits := s.Converge().Waits; waits != "" {
		return http.StatusInternalServerError, "not ready: " + waits
	}
	if l, follower := s.standby(); follower {
		if l.Problem != "" {
			return http.StatusInternalServerError, "not ready: " + l.String() // it contains the reason
		}
		return http.StatusOK, "ok: " + l.String()
	}
	if s.Converge().Ready {
		return http.StatusOK, "ok"
	}
	return http.StatusInternalServerError, "not ready: the first converge has not finished"
}

// leaderOnly answers in place of pages with the state of a leader: in a follower they would
// be empty, or report that a module does not exist. It needs a path without an extension.
func (s router) leaderOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l, follower := s.standby(); follower && needsLeader(r.URL.Path) {
			text(w, http.StatusServiceUnavailable, "this replica is a "+l.String()+"; send the request to the leader\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// needsLeader decides by the first element of the path. The live page itself shows a follower as
// one.
func needsLeader(path string) bool {
	if path == "/status" { // and not /status/converge
		return true
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains([]string{"queue", "module", "global", "hook", "values", "plan", "converge", "actors"}, first)
}

// Pages that read a body or render charts take tens of mebibytes each,
// so maxHeavy of them are made at a time. Later requests wait before their bodies are read, so that
// waiting costs no memory (J8).
const (
	maxHeavy   = 2
	heavyWaits = 30 * time.Second
)

// gate holds one element for each heavy page that is being made; its capacity is the limit.
type gate chan struct{}

func newGate() gate { return make(gate, maxHeavy) }

// heavy reports whether a page takes a place of the gate. It sees the path as the client sent it,
// before withoutExtension, so it removes the extension itself. All POSTs count, since they have
// bodies.
func heavy(r *http.Request) bool {
	asked := strings.TrimSuffix(r.URL.Path, path.Ext(r.URL.Path))
	_, part, module := strings.Cut(strings.TrimPrefix(asked, "/module/"), "/")
	return r.Method == http.MethodPost || asked == "/plan" || module && part == "render"
}

// handler serves heavy pages when there is a place, and all others at once. A request that waits
// for longer than heavyWaits is refused with 503; one whose client has gone gives up its place in
// line.
func (g gate) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !heavy(r) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), heavyWaits)
		defer cancel()
		select {
		case g <- struct{}{}:
		case <-ctx.Done():
			text(w, http.StatusServiceUnavailable, fmt.Sprintf("%d requests for pages like this one are in progress, and more are waiting; try again later\n", maxHeavy))
			return
		}
		defer func() { <-g }()
		// The read deadline of the server began with the request; the wait at the gate must not
		// count against the body. A recorder of tests has no deadlines.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestTimeout))
		next.ServeHTTP(w, r)
	})
}

// maxConnections is the number of connections of one listener: kubelet, Prometheus and a few people
// need some ten.
const maxConnections = 100

// connections bounds how many connections a server has. For one more it closes the one that has
// been waiting longest without a complete request or, when all of them are being answered, the one
// whose answer takes longest (J8). The obvious alternative, to accept no connection until one is
// free, would let a client that keeps all of them open lock out the probes of the kubelet, which
// then restarts the Pod.
type connections struct {
	// mu guards open. It is held while a connection is closed, which does not block (closeOldest).
	mu    sync.Mutex
	limit int
	open  map[net.Conn]occupation
}

// occupation is the state of a connection, and when it began.
type occupation struct {
	answered bool // false: it waits for a complete request, also while it is idle
	since    time.Time
}

// changed is the ConnState hook of a server. The server calls it for a new connection in its accept
// loop, before the next Accept, so there are never more than limit connections. For the other
// states it is called in the goroutine of the connection.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		for len(c.open) >= c.limit {
			c.closeOldest()
		}
		c.open[conn] = occupation{since: time.Now()}
	case http.StateActive, http.StateIdle:
		// A connection that was closed to make room is not added again: its goroutine in the server
		// may not have noticed yet.
		if _, open := c.open[conn]; open {
			c.open[conn] = occupation{answered: state == http.StateActive, since: time.Now()}
		}
	case http.StateHijacked, http.StateClosed:
		delete(c.open, conn)
	}
}

// closeOldest makes room for one connection. The caller holds the mutex, and open is not empty.
func (c *connections) closeOldest() {
	var oldest net.Conn
	var of occupation
	for conn, o := range c.open {
		if oldest == nil || of.answered && !o.answered || of.answered == o.answered && o.since.Before(of.since) {
			oldest, of = conn, o
		}
	}
	delete(c.open, oldest)
	if encrypted, ok := oldest.(*tls.Conn); ok {
		// Closing TLS sends an alert first, which may wait for a client that does not read.
		oldest = encrypted.NetConn()
	}
	_ = oldest.Close() // it has no request, or its client does not read: no one needs the error
}
