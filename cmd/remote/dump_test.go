package remote

import (
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
	case r.URL.Query().Get("output") == "yaml":
		fmt.Fprint(w, "- path: operator\n  processed: 12\n")
	default:
		fmt.Fprint(w, "ACTOR\noperator\n")
	}
}

// Design 7: --dump-actors in three formats, over TCP and over a unix socket.
func TestDump(t *testing.T) {
	tcp := httptest.NewServer(http.HandlerFunc(pages))
	defer tcp.Close()
	socket := filepath.Join(t.TempDir(), "debug.socket")
	must(t, server.Serve(t.Context(), "unix:"+socket, http.HandlerFunc(pages), slog.New(slog.DiscardHandler)))
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
				if out, err := commanded(append(c, "--dump-actors", "-o", format)...); err != nil || out != want {
					t.Errorf("got %q, %v", out, err)
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
	host := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	for to, wants := range map[string][]string{
		host(broken): {host(broken), "418", "no such luck"},
		host(gone):   {"no operator answers on " + host(gone), "--debug-address"},
	} {
		out, err := commanded("--dump-actors", "--debug-address", to)
		if err == nil || out != "" {
			t.Fatalf("got %q, %v", out, err)
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
}
