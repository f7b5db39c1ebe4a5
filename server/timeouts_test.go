package server

import (
	"net"
	"net/http"
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
				t.Errorf("%s: the connection is open for ever", name)
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
