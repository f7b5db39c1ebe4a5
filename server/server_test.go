package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/server"
	"addon-operator/supervisor"
	"addon-operator/testkit/golden"
)

// operator is one made of actors that do nothing but have a status.
type operator struct {
	t        *testing.T
	system   *supervisor.System
	root     *actor.PID
	converge view.ConvergeStatus
}

// spawnNamed asks an actor to spawn a child with a status.
type spawnNamed struct {
	name   string
	status supervisor.Status
}

type child struct{ system *supervisor.System }

func (r child) Receive(ctx actor.Context) {
	if msg, ok := ctx.Message().(spawnNamed); ok {
		pid, err := ctx.SpawnNamed(r.system.Props(func() actor.Actor { return r }), msg.name)
		if err == nil {
			r.system.Inspector.Publish(pid, msg.status)
		}
	}
}

// withOperator plays a test on virtual time, so that pages which tell durations are exact.
func withOperator(t *testing.T, play func(*operator)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &operator{t: t, system: supervisor.NewSystem(supervisor.Options{Log: slog.New(slog.DiscardHandler)})}
		root, err := h.system.Spawn("operator", func() actor.Actor { return child{h.system} })
		must(t, err)
		h.root = root
		defer func() {
			if err := h.system.Wait(t.Context(), root); err != nil {
				t.Error(err)
			}
			h.system.Close()
			time.Sleep(2 * time.Second) // the library's throttle of dead letters lives for one
			synctest.Wait()
		}()
		defer h.system.Actors.Root.Stop(root)
		play(h)
	})
}

// add spawns an actor below another one.
func (h *operator) add(parent, name string, status supervisor.Status) {
	h.system.Send(h.system.PID(parent), spawnNamed{name, status})
	synctest.Wait()
}

func (h *operator) source() server.Source {
	operator, hooks := prometheus.NewRegistry(), prometheus.NewRegistry()
	one := prometheus.NewCounter(prometheus.CounterOpts{Name: "addon_operator_tasks_total"})
	two := prometheus.NewCounter(prometheus.CounterOpts{Name: "hook_metric_total"})
	operator.MustRegister(one)
	hooks.MustRegister(two)
	return silent(server.Source{
		Inspector: h.system.Inspector, Converge: func() view.ConvergeStatus { return h.converge },
		Metrics: operator, HookMetrics: hooks, Version: "v1.2.3",
	})
}

// silent is a source that has nothing to hide, and nothing else to say.
func silent(s server.Source) server.Source {
	s.Hide, s.History = strings.Clone, &server.History{Hide: strings.Clone}
	s.Hanging = func() []view.RunningHook { return nil }
	s.NotInForce = func() map[string]string { return nil }
	s.Observed = func(context.Context) (bool, error) { return true, nil }
	return s
}

func (h *operator) get(handler http.Handler, path string) (status int, body string) {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w.Code, w.Body.String()
}

// J1: healthz is 200 while the process lives, also before the first converge.
func TestHealthz(t *testing.T) {
	withOperator(t, func(h *operator) {
		if status, body := h.get(server.Public(h.source()), "/healthz"); status != http.StatusOK || body != "ok\n" {
			t.Errorf("got %d %q", status, body)
		}
	})
}

// J1: readyz is 200 after the first converge, and stays so during later reloads.
func TestReadyz(t *testing.T) {
	const notReady = "not ready: the first converge has not finished\n"
	for name, c := range map[string]struct {
		converge view.ConvergeStatus
		status   int
		body     string
	}{
		"before the start":           {view.ConvergeStatus{}, 500, notReady},
		"without a ConfigMap":        {view.ConvergeStatus{Waits: "the ConfigMap cannot be read: no"}, 500, "not ready: the ConfigMap cannot be read: no\n"},
		"during the first converge":  {view.ConvergeStatus{Phase: view.ConvergeReloading, Reload: 1}, 500, notReady},
		"after it":                   {view.ConvergeStatus{Phase: view.ConvergeIdle, Reload: 1, Ready: true}, 200, "ok\n"},
		"during a reload after that": {view.ConvergeStatus{Phase: view.ConvergeReloading, Reload: 2, Ready: true}, 200, "ok\n"},
	} {
		t.Run(name, func(t *testing.T) {
			withOperator(t, func(h *operator) {
				h.converge = c.converge
				if status, body := h.get(server.Public(h.source()), "/readyz"); status != c.status || body != c.body {
					t.Errorf("got %d %q, want %d %q", status, body, c.status, c.body)
				}
			})
		})
	}
}

// fill makes it one in the middle of its work.
func (h *operator) fill() {
	now := time.Now()
	task := func(id, owner string, work messages.Work, ago time.Duration) messages.Task {
		return messages.Task{ID: id, Owner: owner, Work: work, QueuedAt: now.Add(-ago), Cause: messages.Cause{Activation: messages.ByFiles}}
	}
	var many []messages.Task
	for i := range 2 {
		many = append(many, task("1", "web", messages.PurgeRelease{Release: "old"}, time.Duration(i)*time.Hour))
	}
	h.converge = view.ConvergeStatus{Phase: view.ConvergeReloading, Reload: 1}
	h.add("operator", "converge", h.converge)
	h.add("operator", "config", view.ConfigStatus{Revision: "17", Refused: "key dns: wrong"})
	h.add("operator", "monitors", view.MonitorsStatus{})
	h.add("operator", "module/run", view.ModuleStatus{Phase: view.Running, Release: 2})
	h.add("operator/module/run", "run/7", supervisor.RunStatus{Step: "helm", Attempt: 1})
	h.add("operator", "queue/slow", view.QueueStatus{Length: 102, Head: many})
	h.add("operator", "queue/a/b", view.QueueStatus{})
	h.add("operator", "queue/main", view.QueueStatus{Length: 2, InProgress: true, Since: now.Add(-5 * time.Second), Head: []messages.Task{
		task("7", "run", messages.RunModule{}, 10*time.Second), task("8", messages.Converge, messages.FinishReload{}, 9*time.Second),
	}})
	time.Sleep(30 * time.Second)
	synctest.Wait()
}

// J1, J2, J5, X34: pages for people are golden.
func TestPages(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.fill()
		handler := server.Debug(h.source())
		for path, file := range map[string]string{
			"/queue":          "queue.txt",
			"/readyz?verbose": "readyz.txt",
			"/actors":         "actors.txt",
			"/":               "index.html",
		} {
			_, body := h.get(handler, path)
			golden.File(t, "testdata/"+file, body)
		}
	})
}

// Before anything has started there is nothing to show, and nothing fails.
func TestPagesOfAnEmptyOperator(t *testing.T) {
	withOperator(t, func(h *operator) {
		if status, body := h.get(server.Public(h.source()), "/queue"); status != http.StatusOK || body != "0 tasks in 0 queues.\n" {
			t.Errorf("got %d %q", status, body)
		}
	})
}

// J3: the words that scripts know.
func TestStatusConverge(t *testing.T) {
	reloading, idle := view.ConvergeReloading, view.ConvergeIdle
	for name, c := range map[string]struct {
		converge   view.ConvergeStatus
		text, json string
	}{
		"before the start": {
			view.ConvergeStatus{}, "STARTUP_CONVERGE_NOT_STARTED\n",
			`{"CONVERGE_IN_PROGRESS":0,"CONVERGE_WAIT_TASK":false,"STARTUP_CONVERGE_DONE":false,"STARTUP_CONVERGE_IN_PROGRESS":0,"STARTUP_CONVERGE_NOT_STARTED":true}`,
		},
		"first converge": {
			view.ConvergeStatus{Phase: reloading}, "STARTUP_CONVERGE_IN_PROGRESS: 3 tasks\n",
			`{"CONVERGE_IN_PROGRESS":0,"CONVERGE_WAIT_TASK":false,"STARTUP_CONVERGE_DONE":false,"STARTUP_CONVERGE_IN_PROGRESS":3,"STARTUP_CONVERGE_NOT_STARTED":false}`,
		},
		"a later reload": {
			view.ConvergeStatus{Phase: reloading, Ready: true}, "STARTUP_CONVERGE_DONE\nCONVERGE_IN_PROGRESS: 3 tasks\n",
			`{"CONVERGE_IN_PROGRESS":3,"CONVERGE_WAIT_TASK":false,"STARTUP_CONVERGE_DONE":true,"STARTUP_CONVERGE_IN_PROGRESS":0,"STARTUP_CONVERGE_NOT_STARTED":false}`,
		},
		"idle": {
			view.ConvergeStatus{Phase: idle, Ready: true}, "STARTUP_CONVERGE_DONE\nCONVERGE_WAIT_TASK\n",
			`{"CONVERGE_IN_PROGRESS":0,"CONVERGE_WAIT_TASK":true,"STARTUP_CONVERGE_DONE":true,"STARTUP_CONVERGE_IN_PROGRESS":0,"STARTUP_CONVERGE_NOT_STARTED":false}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withOperator(t, func(h *operator) {
				h.converge = c.converge
				h.add("operator", "queue/other", view.QueueStatus{Length: 5})
				h.add("operator", "queue/main", view.QueueStatus{Length: 3})
				handler := server.Public(h.source())
				if status, body := h.get(handler, "/status/converge"); status != http.StatusOK || body != c.text {
					t.Errorf("got %d %q, want %q", status, body, c.text)
				}
				_, body := h.get(handler, "/status/converge?output=json")
				var tree map[string]any
				must(t, json.Unmarshal([]byte(body), &tree))
				if got, _ := json.Marshal(tree); string(got) != c.json {
					t.Errorf("got  %s\nwant %s", got, c.json)
				}
			})
		})
	}
}

// Design 7: the dump as data. Scripts of people read it, and so does --dump-actors.
func TestActorsAsJSON(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.fill()
		status, body := h.get(server.Debug(h.source()), "/actors?output=json")
		if status != http.StatusOK {
			t.Fatalf("status %d: %s", status, body)
		}
		golden.File(t, "testdata/actors.json", body)
	})
}

// I1, J1: the metrics of the operator and of hooks on one page, and those of hooks alone.
func TestMetrics(t *testing.T) {
	withOperator(t, func(h *operator) {
		handler := server.Public(h.source())
		for path, want := range map[string]struct{ operator, hooks bool }{"/metrics": {true, true}, "/metrics/hooks": {false, true}} {
			status, body := h.get(handler, path)
			operator, hooks := strings.Contains(body, "addon_operator_tasks_total 0"), strings.Contains(body, "hook_metric_total 0")
			if status != http.StatusOK || operator != want.operator || hooks != want.hooks {
				t.Errorf("%s: %d, operator %v, hooks %v", path, status, operator, hooks)
			}
		}
	})
}

// J7: what somebody on the machine may see is not on the public address. Nobody can
// change anything by a request.
func TestPublicHidesDebugPages(t *testing.T) {
	withOperator(t, func(h *operator) {
		public, debug := server.Public(h.source()), server.Debug(h.source())
		for _, path := range []string{"/actors", "/debug/pprof/", "/debug/pprof/cmdline", "/nothing"} {
			if status, _ := h.get(public, path); status != http.StatusNotFound {
				t.Errorf("public %s: %d", path, status)
			}
		}
		for _, path := range []string{"/", "/healthz", "/queue", "/status/converge", "/metrics", "/actors", "/debug/pprof/", "/debug/pprof/cmdline"} {
			if status, _ := h.get(debug, path); status != http.StatusOK {
				t.Errorf("debug %s: %d", path, status)
			}
		}
		for _, path := range []string{"/healthz", "/queue", "/actors"} {
			w := httptest.NewRecorder()
			debug.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, http.NoBody))
			if w.Code == http.StatusOK {
				t.Errorf("POST %s is answered", path)
			}
		}
	})
}

// J7: what hooks and Helm print when they fail may hold secrets, and a ConfigMap that is
// refused is refused for a value; everybody may read the public pages, only somebody on
// the machine the debug address.
func TestPublicHidesErrors(t *testing.T) {
	withOperator(t, func(h *operator) {
		const secret = "password is hunter2"
		failing := []view.FailingTask{{Task: "RunModule", Attempts: 2, Error: secret}}
		h.add("operator", "module/dns", view.ModuleStatus{Phase: view.Running, Failing: failing})
		h.add("operator", "global-hooks", view.GlobalStatus{Failing: failing})
		h.add("operator", "config", view.ConfigStatus{Refused: "dns.size must match the pattern ^[0-9]+$, is \"hunter3\""})
		h.add("operator/module/dns", "run/7", supervisor.RunStatus{Attempt: 1, Error: secret, RetryAt: time.Now()})
		h.add("operator", "queue/main", view.QueueStatus{Length: 1, InProgress: true, Head: []messages.Task{{ID: "7", Owner: "dns", Work: messages.RunModule{}}}})
		synctest.Wait()
		for _, path := range []string{"/queue", "/readyz?verbose", "/", "/?actors"} {
			if _, body := h.get(server.Public(h.source()), path); strings.Contains(body, secret) {
				t.Errorf("public %s shows an error:\n%s", path, body)
			}
			if _, body := h.get(server.Debug(h.source()), path); !strings.Contains(body, secret) {
				t.Errorf("debug %s hides the error:\n%s", path, body)
			}
		}
		for _, path := range []string{"/readyz?verbose", "/"} {
			_, body := h.get(server.Public(h.source()), path)
			if strings.Contains(body, "hunter3") || !strings.Contains(strings.ToLower(body), "refused") {
				t.Errorf("public %s says of the ConfigMap:\n%s", path, body)
			}
			if _, body := h.get(server.Debug(h.source()), path); !strings.Contains(body, "hunter3") {
				t.Errorf("debug %s does not say why the ConfigMap is refused:\n%s", path, body)
			}
		}
		off := map[string]string{"dns": view.DiscoveryFails(errors.New("dns/enabled: exit status 1: " + secret)), "web": "no flag anywhere (webEnabled)"}
		h.add("operator", "converge", view.ConvergeStatus{Phase: view.ConvergeIdle, Off: off})
		h.add("operator", "module/web", view.ModuleStatus{Phase: view.Disabled})
		if _, body := h.get(server.Public(h.source()), "/"); strings.Contains(body, secret) || !strings.Contains(body, "the discovery fails: the log") || !strings.Contains(body, "no flag anywhere") {
			t.Errorf("the public page says why modules are off:\n%s", body)
		}
		if _, body := h.get(server.Debug(h.source()), "/"); !strings.Contains(body, "exit status 1: "+secret) {
			t.Errorf("the debug page does not say why dns is off:\n%s", body)
		}
		if failing[0].Error != secret {
			t.Error("the published status was changed")
		}
	})
}
