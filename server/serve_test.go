package server_test

import (
	"bytes"
	"context"
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

	"addon-operator/server"
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
