package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/server"
	"addon-operator/supervisor"
)

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// get asks over a unix socket, or over TCP.
func get(network, address string) (string, error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		},
	}}
	resp, err := client.Get("http://operator/")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute) // nothing measures it
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// J7: the socket is for its owner alone; it goes with the server, and what a killed
// operator left behind does not hinder.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "debug.socket")
	for range 2 { // the second time over the remains of the first
		ctx, cancel := context.WithCancel(t.Context())
		must(t, server.Serve(ctx, "unix:"+path, http.HandlerFunc(hello), quiet()))
		for file, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
			info, err := os.Stat(file)
			must(t, err)
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has mode %o, want %o", file, got, want)
			}
		}
		if body, err := get("unix", path); body != "hello" || err != nil {
			t.Errorf("got %q, %v", body, err)
		}
		cancel()
		eventually(t, "the server ends", func() bool { _, err := get("unix", path); return err != nil })
		leaveSocket(t, path)
	}
}

// leaveSocket leaves a socket without a server, as a killed process does.
func leaveSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	l.SetUnlinkOnClose(false)
	must(t, l.Close())
}

// Only a socket is removed: a wrong path in an option must not cost somebody a file.
func TestUnixSocketSparesFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precious")
	must(t, os.WriteFile(path, []byte("precious"), 0o600))
	err := server.Serve(t.Context(), "unix:"+path, http.HandlerFunc(hello), quiet())
	if err == nil || !strings.Contains(err.Error(), path+": bind: address already in use; remove what is there") {
		t.Errorf("got %v", err)
	}
	if data, err := os.ReadFile(path); string(data) != "precious" || err != nil {
		t.Errorf("the file: %q, %v", data, err)
	}
}

func TestUnixSocketInAPlaceThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	err := server.Serve(t.Context(), "unix:"+file+"/debug.socket", http.HandlerFunc(hello), quiet())
	if err == nil || !strings.HasPrefix(err.Error(), "debug socket: ") {
		t.Errorf("got %v", err)
	}
}

// Somebody must see which address is taken, and what to do.
func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	address := l.Addr().String()
	err = server.Serve(t.Context(), address, http.HandlerFunc(hello), quiet())
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{address, "address already in use", "another"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: says nothing of %q", err, want)
		}
	}
}

// An operator that was killed a moment ago may still hold the address.
func TestServeAwaitsItsAddress(t *testing.T) {
	former, err := net.Listen("tcp", server.FreeAddress(t))
	must(t, err)
	time.AfterFunc(50*time.Millisecond, func() { _ = former.Close() })
	must(t, server.Serve(t.Context(), former.Addr().String(), http.HandlerFunc(hello), slog.New(slog.DiscardHandler)))
}

// The end of the context ends the server and frees its address; that is no error.
func TestServeEndsWithItsContext(t *testing.T) {
	address := server.FreeAddress(t)
	log := &lockedBuffer{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	must(t, server.Serve(ctx, address, http.HandlerFunc(hello), slog.New(slog.NewTextHandler(log, nil))))
	if body, err := get("tcp", address); body != "hello" || err != nil {
		t.Errorf("got %q, %v", body, err)
	}
	cancel()
	eventually(t, "the server ends", func() bool { _, err := get("tcp", address); return err != nil })
	if log.String() != "" {
		t.Errorf("logged: %s", log.String())
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// deadlines remembers the last deadline of an answer.
type deadlines struct {
	http.ResponseWriter
	last time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error { d.last = at; return nil }

// J1: somebody who asks a public page and does not read the answer is not waited for.
func TestPublicAnswersHaveATimeLimit(t *testing.T) {
	handler := server.Public(source(t))
	for _, path := range []string{"/", "/metrics", "/queue", "/nothing"} {
		w := &deadlines{ResponseWriter: httptest.NewRecorder()}
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if left := time.Until(w.last); left <= 0 || left > 5*time.Minute {
			t.Errorf("%s: %s are left", path, left)
		}
	}
}

// J7: a site whose name leads to this machine does not read the debug address through the
// browser of somebody there.
func TestDebugIsAskedByItsOwnName(t *testing.T) {
	handler := server.Debug(source(t))
	for _, c := range []struct {
		local  net.Addr
		host   string
		status int
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9115}, "127.0.0.1:9115", http.StatusOK},
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9115}, "localhost:9115", http.StatusOK},
		{&net.TCPAddr{IP: net.IPv6loopback, Port: 9115}, "[::1]:9115", http.StatusOK},
		{&net.TCPAddr{IP: net.IPv6loopback, Port: 9115}, "[::1]", http.StatusOK},
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9115}, "site.example:9115", http.StatusForbidden},
		{&net.TCPAddr{IP: net.IPv6loopback, Port: 9115}, "site.example", http.StatusForbidden},
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 9115}, "operator.add-ons.svc:9115", http.StatusOK}, // chosen by who set the address
		{&net.UnixAddr{Name: "/run/debug.socket", Net: "unix"}, "socket", http.StatusOK},
	} {
		r := httptest.NewRequest(http.MethodGet, "/actors", http.NoBody)
		r.Host = c.host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.local)))
		if w.Code != c.status {
			t.Errorf("%s asked as %s: %d, want %d: %s", c.local, c.host, w.Code, c.status, w.Body)
		}
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func source(t *testing.T) server.Source {
	t.Helper()
	system := supervisor.NewSystem(supervisor.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(system.Close)
	return silent(server.Source{
		Inspector: system.Inspector, Converge: func() view.ConvergeStatus { return view.ConvergeStatus{} },
		Metrics: prometheus.NewRegistry(), HookMetrics: prometheus.NewRegistry(),
	})
}

// follower serves the pages of a replica whose leader is at an address.
func follower(t *testing.T, l view.Leadership) (public, debug *httptest.Server) {
	t.Helper()
	s := source(t)
	s.Leadership = func() view.Leadership { return l }
	public, debug = httptest.NewServer(server.Public(s)), httptest.NewServer(server.Debug(s))
	t.Cleanup(public.Close)
	t.Cleanup(debug.Close)
	return public, debug
}

// L3: a follower is ready when it could lead, whatever its leader does.
func TestReadinessOfAFollower(t *testing.T) {
	led := view.Leadership{Self: "b", Leader: "a", Address: "10.0.0.1:9650"}
	for name, c := range map[string]struct {
		leadership view.Leadership
		waits      string
		status     int
		says       string
	}{
		"ready":                     {led, "", 200, "ok: standby; a (10.0.0.1:9650) leads"},
		"no leader":                 {view.Leadership{Self: "b"}, "", 200, "ok: standby; no leader"},
		"no API server":             {led, "the ConfigMap cannot be read", 500, "not ready: the ConfigMap cannot be read"},
		"the Lease is out of reach": {view.Leadership{Self: "b", Leader: "a", Problem: "forbidden"}, "", 500, "; it cannot compete for the lease: forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			withOperator(t, func(h *operator) {
				h.converge.Waits = c.waits
				s := h.source()
				s.Leadership = func() view.Leadership { return c.leadership }
				for _, page := range []string{"/readyz", "/readyz?verbose"} {
					if status, body := h.get(server.Public(s), page); status != c.status || !strings.Contains(body, c.says) {
						t.Errorf("%s: %d %q, want %d %q", page, status, body, c.status, c.says)
					}
				}
				if status, body := h.get(server.Public(s), "/healthz"); status != http.StatusOK {
					t.Errorf("healthz: %d %s", status, body)
				}
			})
		})
	}
}

// Pages that only a leader can fill say so; the others are there.
func TestPagesOfAFollower(t *testing.T) {
	public, debug := follower(t, view.Leadership{Self: "b", Leader: "a", Address: "10.0.0.1:9650"})
	for _, path := range []string{"/queue", "/queue/list.json", "/module/list.json", "/module/dns/values.yaml", "/global/values.yaml", "/values/explain", "/plan.text", "/plan.json", "/actors"} {
		expectPage(t, debug.URL+path, http.StatusServiceUnavailable, "this replica is a standby; a (10.0.0.1:9650) leads")
	}
	expectPage(t, public.URL+"/queue", http.StatusServiceUnavailable, "send the request to the leader")
	expectPage(t, public.URL+"/", http.StatusOK, "standby; a (10.0.0.1:9650) leads")
	expectPage(t, public.URL+"/metrics", http.StatusOK, "")
}

// A leader with a Lease says so, with its identity; one without a Lease says nothing.
func TestPagesOfALeader(t *testing.T) {
	public, debug := follower(t, view.Leadership{Self: "b", Leader: "b", Leading: true, Since: time.Now()})
	expectPage(t, public.URL+"/", http.StatusOK, "leader b since")
	expectPage(t, debug.URL+"/module/list.json", http.StatusOK, `"leadership"`)
}

func expectPage(t *testing.T, url string, status int, says string) {
	t.Helper()
	resp, err := http.Get(url)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != status || !strings.Contains(string(body), says) {
		t.Errorf("%s: %d, want %d with %q:\n%s", url, resp.StatusCode, status, says, body)
	}
}

// J19: five runs of each hook are kept, and no more than the bounds allow of all together, the newest ones.
func TestHistoryIsBounded(t *testing.T) {
	h := &server.History{Hide: strings.Clone}
	for i := range 12 {
		h.Add(view.HookRun{Owner: "dns", Hook: "010-dns/hooks/a.sh", Took: time.Second, Output: fmt.Sprint("run ", i)})
	}
	h.Add(view.HookRun{Owner: messages.GlobalHooks, Hook: "b.sh", Err: errors.New("exit code 3"), Cause: messages.Cause{Activation: "Schedule", Detail: "each minute"}})
	runs := h.Runs("dns", "a.sh")
	if len(runs) != 5 || runs[0].Output != "run 7" || runs[4].Output != "run 11" || runs[4].Seconds != 1 {
		t.Errorf("of one hook there are %v", runs)
	}
	if got := h.Runs("global", ""); len(got) != 1 || got[0].Module != "global" || !strings.Contains(got[0].String(), "b.sh  (Schedule: each minute) took 0s, failed: exit code 3") {
		t.Errorf("of global hooks there are %v", got)
	}
	if got := h.Runs("other", ""); len(got) != 0 {
		t.Errorf("of another module there are %v", got)
	}
	long := strings.Repeat("é", 1<<20)
	for i := range 5000 {
		h.Add(view.HookRun{Owner: "web", Hook: fmt.Sprint(i), Output: long, Err: errors.New(long)})
	}
	bytes := 0
	for _, r := range h.Runs("", "") {
		bytes += len(r.Output) + len(r.Error)
	}
	if last := h.Runs("web", "4999"); bytes > 8<<20 || len(last) != 1 {
		t.Errorf("%d bytes are kept, of the last run %v", bytes, len(last))
	}
}

// J10: a secret that lies across the place where a long text is cut leaves no part of itself.
func TestHistoryHidesBeforeItCuts(t *testing.T) {
	h := &server.History{Hide: func(text string) string { return strings.ReplaceAll(text, "swordfish", "***") }}
	for cut := range len("swordfish") {
		long := "swordfish" + strings.Repeat("x", 4<<10-cut)
		h.Add(view.HookRun{Hook: fmt.Sprint(cut), Output: long, Err: errors.New(long), Cause: messages.Cause{Activation: "Schedule", Detail: "swordfish" + strings.Repeat("x", 200-cut)}})
		run := h.Runs("", fmt.Sprint(cut))[0]
		for _, text := range []string{run.Output, run.Error, run.Cause} {
			if strings.Contains(text, "h") {
				t.Errorf("of a secret, %d bytes of it after the cut, there is a part: %.20q", cut, text)
			}
		}
	}
}
