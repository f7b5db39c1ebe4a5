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

	"addon-operator/messages"
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
	list := messages.BindingState{Owner: "dns", Hook: "h.sh", Binding: "pods", Kind: "Pod", Phase: "syncing"}
	failing := list
	failing.Phase, failing.Message = "forbidden", "not allowed to list pods"
	for name, c := range map[string]struct {
		leadership view.Leadership
		waits      string
		standby    *view.StandbyStatus
		bindings   []messages.BindingState
		status     int
		says       string
	}{
		"warm":                      {led, "", &view.StandbyStatus{Warm: true}, nil, 200, "ok: standby; a (10.0.0.1:9650) leads"},
		"no leader":                 {view.Leadership{Self: "b"}, "", &view.StandbyStatus{Warm: true}, nil, 200, "ok: standby; no leader"},
		"before the start":          {led, "", nil, nil, 500, "a (10.0.0.1:9650) leads since 0001-01-01T00:00:00Z; it starts"},
		"no API server":             {led, "the ConfigMap cannot be read", nil, nil, 500, "not ready: the ConfigMap cannot be read"},
		"hooks are loaded":          {led, "", &view.StandbyStatus{Wanted: 1}, nil, 500, "; hooks are being loaded"},
		"a snapshot is filled":      {led, "", &view.StandbyStatus{Warm: true}, []messages.BindingState{list}, 500, "; snapshots are being filled: 1, first dns h.sh/pods Pod: syncing"},
		"a watch fails":             {led, "", &view.StandbyStatus{Warm: true}, []messages.BindingState{failing}, 200, "ok: standby"},
		"hooks that are cold":       {led, "", &view.StandbyStatus{Warm: true, Wanted: 1, Cold: []string{"hooks of dns are not loaded: broken"}}, nil, 200, "ok: standby"},
		"the Lease is out of reach": {view.Leadership{Self: "b", Leader: "a", Problem: "forbidden"}, "", &view.StandbyStatus{Warm: true}, nil, 500, "; it cannot compete for the lease: forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			withOperator(t, func(h *operator) {
				h.converge.Waits = c.waits
				if c.standby != nil {
					h.add("operator", "standby", *c.standby)
				}
				h.add("operator", "monitors", reporter{view.MonitorsStatus{Bindings: c.bindings}})
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
	for _, path := range []string{"/queue", "/queue/list.json", "/module/list.json", "/module/dns/values.yaml", "/global/values.yaml", "/values/explain", "/plan.text", "/plan.json"} {
		expectPage(t, debug.URL+path, http.StatusServiceUnavailable, "this replica is a standby; a (10.0.0.1:9650) leads")
	}
	expectPage(t, public.URL+"/queue", http.StatusServiceUnavailable, "send the request to the leader")
	expectPage(t, public.URL+"/", http.StatusOK, "standby; a (10.0.0.1:9650) leads")
	expectPage(t, debug.URL+"/actors", http.StatusOK, "")
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
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status || !strings.Contains(string(body), says) {
		t.Errorf("%s: %d, want %d with %q:\n%s", url, resp.StatusCode, status, says, body)
	}
}
