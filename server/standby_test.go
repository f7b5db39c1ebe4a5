package server_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/messages"
	"addon-operator/server"
	"addon-operator/supervisor"
)

func source(t *testing.T) server.Source {
	t.Helper()
	system := supervisor.NewSystem(supervisor.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(system.Close)
	return server.Source{
		Inspector: system.Inspector, Converge: func() messages.ConvergeStatus { return messages.ConvergeStatus{} },
		Metrics: prometheus.NewRegistry(), HookMetrics: prometheus.NewRegistry(),
	}
}

// follower serves the pages of a replica whose leader is at an address.
func follower(t *testing.T, l messages.Leadership) (public, debug *httptest.Server) {
	t.Helper()
	s := source(t)
	s.Leadership = func() messages.Leadership { return l }
	public, debug = httptest.NewServer(server.Public(s)), httptest.NewServer(server.Debug(s))
	t.Cleanup(public.Close)
	t.Cleanup(debug.Close)
	return public, debug
}

// L3: a follower is ready when its leader is.
func TestReadinessOfAFollower(t *testing.T) {
	ready := true
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || !r.URL.Query().Has("own") {
			t.Errorf("the follower asks for %s", r.URL)
		}
		if !ready {
			http.Error(w, "not ready: the first converge is not over", http.StatusInternalServerError)
			return
		}
	}))
	defer leader.Close()
	address := strings.TrimPrefix(leader.URL, "http://")
	public, _ := follower(t, messages.Leadership{Self: "b", Leader: "a", Address: address})
	expectPage(t, public.URL+"/readyz", http.StatusOK, "ok: stand-by; a ("+address+") leads")
	expectPage(t, public.URL+"/readyz?verbose", http.StatusOK, "ok: stand-by; a ("+address+") leads")
	expectPage(t, public.URL+"/readyz?own", http.StatusInternalServerError, "this replica does not lead")
	ready = false
	expectPage(t, public.URL+"/readyz", http.StatusInternalServerError, "the leader says: not ready: the first converge is not over")
	leader.Close()
	expectPage(t, public.URL+"/readyz", http.StatusInternalServerError, "the leader does not answer")

	alone, _ := follower(t, messages.Leadership{Self: "b"})
	expectPage(t, alone.URL+"/readyz", http.StatusInternalServerError, "there is no leader")
	expectPage(t, alone.URL+"/healthz", http.StatusOK, "ok")
}

// Two replicas that take each other for the leader do not ask in a circle.
func TestFollowersDoNotAskInACircle(t *testing.T) {
	s := source(t)
	var self messages.Leadership
	s.Leadership = func() messages.Leadership { return self }
	page := httptest.NewServer(server.Public(s))
	defer page.Close()
	self = messages.Leadership{Self: "a", Leader: "a", Address: strings.TrimPrefix(page.URL, "http://")}
	expectPage(t, page.URL+"/readyz", http.StatusInternalServerError, "the leader says: not ready: this replica does not lead")
}

// Pages that only a leader can fill say so; the others are there.
func TestPagesOfAFollower(t *testing.T) {
	public, debug := follower(t, messages.Leadership{Self: "b", Leader: "a", Address: "10.0.0.1:9650"})
	for _, path := range []string{"/queue", "/queue/list.json", "/module/list.json", "/module/dns/values.yaml", "/global/values.yaml", "/values/explain"} {
		expectPage(t, debug.URL+path, http.StatusServiceUnavailable, "this replica is stand-by; a (10.0.0.1:9650) leads")
	}
	expectPage(t, public.URL+"/queue", http.StatusServiceUnavailable, "ask the leader")
	expectPage(t, public.URL+"/", http.StatusOK, "stand-by; a (10.0.0.1:9650) leads")
	expectPage(t, debug.URL+"/actors", http.StatusOK, "")
	expectPage(t, public.URL+"/metrics", http.StatusOK, "")
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
