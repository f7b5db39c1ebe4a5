package remote

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/server"
)

// pages stands for the debug pages of a running operator.
func pages(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/actors":
		http.NotFound(w, r)
	case r.URL.Query().Get("output") == "json":
		fmt.Fprint(w, `[{"path": "operator", "processed": 12}]`)
	default:
		fmt.Fprint(w, "ACTOR\noperator\n")
	}
}

// Design 7: --dump-actors in three formats, over TCP and over a unix socket.
func TestDump(t *testing.T) {
	tcp := httptest.NewServer(http.HandlerFunc(pages))
	defer tcp.Close()
	socket := filepath.Join(t.TempDir(), "debug.socket")
	if err := server.Serve(t.Context(), "unix:"+socket, http.HandlerFunc(pages), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(tcp.URL, "http://")
	for where, c := range map[string][]string{
		"tcp":                     {"--debug-address=" + address, "--debug-unix-socket=" + socket + ".gone"},
		"socket":                  {"--debug-address=", "--debug-unix-socket=" + socket},
		"socket as debug address": {"--debug-address=unix:" + socket},
	} {
		for format, want := range map[string]string{
			"text": "ACTOR\noperator\n", "table": "ACTOR\noperator\n",
			"json": `[{"path": "operator", "processed": 12}]`,
			"yaml": "- path: operator\n  processed: 12\n",
		} {
			t.Run(where+" "+format, func(t *testing.T) {
				var out bytes.Buffer
				if err := dump(t.Context(), &out, configured(t, c...), format); err != nil || out.String() != want {
					t.Errorf("got %q, %v", out.String(), err)
				}
			})
		}
	}
}

// The flag needs no namespace: an operator that has one answers.
func TestDumpActorsByCommandLine(t *testing.T) {
	tcp := httptest.NewServer(http.HandlerFunc(pages))
	defer tcp.Close()
	out, err := commanded("--dump-actors", "-o", "yaml", "--debug-address", strings.TrimPrefix(tcp.URL, "http://"))
	if out != "- path: operator\n  processed: 12\n" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
}

// Whoever is asked in vain is named, and so is what to do.
func TestDumpFails(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such luck", http.StatusTeapot) }))
	defer broken.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	noJSON := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a:\n\t- {") }))
	defer noJSON.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	host := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	for name, c := range map[string]struct {
		ctx  context.Context
		to   string
		want []string
	}{
		"another program": {t.Context(), host(broken), []string{host(broken), "418", "no such luck"}},
		"nobody":          {t.Context(), host(gone), []string{"no operator answers on " + host(gone), "--debug-address"}},
		"no JSON":         {t.Context(), host(noJSON), []string{"the operator's answer"}},
		"cancelled":       {cancelled, host(noJSON), []string{"context canceled"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := dump(c.ctx, &out, configured(t, "--debug-address="+c.to), "yaml")
			if err == nil || out.Len() > 0 {
				t.Fatalf("got %q, %v", out.String(), err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
		})
	}
}
