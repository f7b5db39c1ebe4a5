package server_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/messages/view"
	"addon-operator/server"
	"addon-operator/supervisor"
)

func source(t *testing.T) server.Source {
	t.Helper()
	system := supervisor.NewSystem(supervisor.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(system.Close)
	return server.Source{
		Inspector: system.Inspector, Converge: func() view.ConvergeStatus { return view.ConvergeStatus{} },
		Metrics: prometheus.NewRegistry(), HookMetrics: prometheus.NewRegistry(),
	}
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
