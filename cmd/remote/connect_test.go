package remote

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// J6: whoever looks again and again over the unix socket leaves no connection behind, for
// the operator has one file for each.
func TestQuestionsOverTheSocketLeaveNoConnection(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "debug.socket")
	l, err := net.Listen("unix", socket)
	must(t, err)
	var open atomic.Int32
	operator := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	operator.Listener = l
	operator.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	operator.Start()
	defer operator.Close()
	for range 5 {
		if out, err := commanded("raw", "/healthz", "--debug-unix-socket="+socket); out != "ok" || err != nil {
			t.Fatalf("got %q, %v", out, err)
		}
	}
	deadline, tick := time.NewTimer(time.Minute), time.NewTicker(time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for open.Load() > 0 {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%d connections are open", open.Load())
		}
	}
}
