package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// J1: everybody can open connections to the public address; those that are left open end.
func TestConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, sent := range map[string]string{
			"nothing is asked":          "",
			"half a request":            "GET /healthz HT",
			"a body that does not come": "GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
			"nothing more is asked":     "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
		} {
			listener := &pipeListener{conns: make(chan net.Conn, 1)}
			srv := newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") }))
			go func() { _ = srv.Serve(listener) }()
			client, server := net.Pipe()
			listener.conns <- server
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				var buffer [512]byte
				for {
					if _, err := client.Read(buffer[:]); err != nil {
						return
					}
				}
			}()
			_, _ = client.Write([]byte(sent))
			select {
			case <-ended:
			case <-time.After(10 * time.Minute):
				t.Errorf("%s: the connection stays open", name)
			}
			_ = client.Close()
			_ = srv.Close()
		}
	})
}

// pipeListener accepts what is put into it.
type pipeListener struct{ conns chan net.Conn }

func (l *pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l *pipeListener) Close() error   { close(l.conns); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// J8: a debug page may take longer than a request.
func TestLongAnswersAreNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, request := range map[string]string{
			"without a body": "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
			"with a body":    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
		} {
			listener := &pipeListener{conns: make(chan net.Conn, 1)}
			srv := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				select {
				case <-r.Context().Done():
					text(w, http.StatusInternalServerError, "cut")
				case <-time.After(time.Hour):
					text(w, http.StatusOK, "done")
				}
			}))
			go func() { _ = srv.Serve(listener) }()
			client, server := net.Pipe()
			listener.conns <- server
			_, _ = client.Write([]byte(request))
			if answer, err := bufio.NewReader(client).ReadString('\n'); !strings.Contains(answer, "200 OK") {
				t.Errorf("%s: %q, %v", name, answer, err)
			}
			_ = client.Close()
			_ = srv.Close()
		}
	})
}

// J8: those that send nothing make room for one that does, the oldest first; one that is being answered stays.
func TestConnectionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener, ended := &pipeListener{conns: make(chan net.Conn)}, make(chan int, 3*maxConnections)
		answer := make(chan struct{})
		srv := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-answer
			}
			text(w, http.StatusOK, "ok\n")
		}))
		defer srv.Close()
		go func() { _ = srv.Serve(listener) }()
		dial := func(sent string) net.Conn {
			client, server := net.Pipe()
			listener.conns <- server
			if sent != "" {
				_, _ = client.Write([]byte(sent))
			}
			synctest.Wait()
			return client
		}
		request := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n" }
		ok := func(client net.Conn) bool {
			line, _ := bufio.NewReader(client).ReadString('\n')
			return strings.Contains(line, "200 OK")
		}

		slow := dial(request("/slow"))
		for i := range 2 * maxConnections {
			<-time.After(time.Millisecond) // so that one is older than the other
			silent := dial("")
			t.Cleanup(func() { silent.Close() })
			go func() {
				_, _ = silent.Read(make([]byte, 1))
				ended <- i
			}()
		}
		synctest.Wait()
		if len(ended) != maxConnections+1 { // one place is taken by the slow one
			t.Errorf("%d of %d silent connections were closed", len(ended), 2*maxConnections)
		}
		for want := range len(ended) {
			if got := <-ended; got > maxConnections {
				t.Errorf("connection %d was closed, and %d of those before it was not", got, want)
			}
		}
		if probe := dial(request("/")); !ok(probe) {
			t.Error("a probe got no answer")
		}
		close(answer)
		if !ok(slow) {
			t.Error("the connection that was being answered was closed")
		}
	})
}

// J8: when all connections are being answered, the one whose answer takes longest makes room: its client does not
// read.
func TestSlowReadersMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := &pipeListener{conns: make(chan net.Conn)}
		srv := newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, strings.Repeat("x", 1<<20)) }))
		defer srv.Close()
		go func() { _ = srv.Serve(listener) }()
		ask := func() net.Conn {
			client, server := net.Pipe()
			listener.conns <- server
			_, _ = client.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
			synctest.Wait()
			<-time.After(time.Millisecond) // so that one is older than the other
			t.Cleanup(func() { client.Close() })
			return client
		}
		first, second := ask(), ask()
		for range maxConnections - 1 {
			ask()
		}
		if text, err := io.ReadAll(io.LimitReader(first, 1<<20)); err == nil && len(text) == 1<<20 {
			t.Error("the oldest one stays, the new one had to wait")
		}
		if text, _ := io.ReadAll(io.LimitReader(second, 1<<20)); len(text) < 1<<20 {
			t.Errorf("a younger one was closed, too, after %d bytes", len(text))
		}
	})
}
