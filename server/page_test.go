package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/actors/plan"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/server"
	"addon-operator/supervisor"
	"addon-operator/testkit/golden"
	"addon-operator/values"
)

// ask loads the page, unless the client has it already in this version.
func (h *operator) ask(handler http.Handler, has string) (status int, body, version string) {
	r, w := httptest.NewRequest(http.MethodGet, "/", http.NoBody), httptest.NewRecorder()
	r.Header.Set("If-None-Match", has)
	handler.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header().Get("ETag")
}

// J18: a reader is sent the page when something has changed, at most once a second, and hears that the operator
// answers when nothing has.
func TestPageChanges(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.add("operator", "module/dns", view.ModuleStatus{Phase: view.Ready, Enabled: true, Order: 1})
		source := h.source()
		source.Hide = func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") }
		handler := server.Debug(source)
		_, _, first := h.ask(handler, "")
		<-time.After(time.Minute) // virtual
		if status, body, _ := h.ask(handler, first); status != http.StatusNotModified || body != "" {
			t.Errorf("without a change the answer is %d: %s", status, body)
		}
		h.add("operator", "module/web", view.ModuleStatus{Phase: view.Starting, Enabled: true, Order: 2, Failing: []view.FailingTask{{Task: "RunModule", Attempts: 1, Error: "hunter2 <b>"}}})
		if status, _, _ := h.ask(handler, first); status != http.StatusNotModified {
			t.Errorf("within the second the answer is %d", status)
		}
		<-time.After(time.Second) // virtual
		status, page, _ := h.ask(handler, first)
		shown := strings.Contains(page, "*** &lt;b&gt;") && strings.Contains(page, ">addon-operator retry web</code>")
		if status != http.StatusOK || !shown || strings.Contains(page, "hunter2") {
			t.Errorf("after a module came the answer is %d: %s", status, page)
		}
		if strings.Index(page, "m-web") > strings.Index(page, "m-dns") {
			t.Errorf("the failing module is not the first: %s", page)
		}
	})
}

// J18: the detail of a module has the commands to copy, and the pages whose texts it loads when they are opened.
func TestDetail(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.add("operator", "module/web", view.ModuleStatus{Phase: view.Ready, Enabled: true, Values: "abc", Failing: []view.FailingTask{{Task: "RunModule", Attempts: 1, Error: "no"}}})
		h.add("operator", "module/off", view.ModuleStatus{Phase: view.Disabled})
		h.add("operator", "module/kept", view.ModuleStatus{Phase: view.Ready, Enabled: true, Maintenance: values.Suspended})
		source := h.source()
		source.History = &server.History{}
		source.History.Add(view.HookRun{Owner: "web", Hook: "web/hooks/a.sh", Binding: "kubernetes", Took: time.Second})
		for name, want := range map[string][]string{
			"web": {
				">addon-operator why web</code>", ">addon-operator logs web</code>", ">addon-operator retry web</code>", ">addon-operator run web</code>", ">addon-operator suspend web</code>",
				`data-part="values/explain?output=wide&amp;module=web" data-version="abc"`, `data-part="hook/runs?output=wide&amp;module=web" data-version="web/hooks/a.sh946684799000000000" open`, `data-part="module/web/status?output=text"`,
			},
			"off":     {">addon-operator why off</code>"},
			"kept":    {">addon-operator resume kept</code>"},
			"nothing": {"There is no module with this name."},
		} {
			_, detail := h.get(server.Debug(source), "/?module="+name)
			for _, text := range want {
				if !strings.Contains(detail, text) {
					t.Errorf("%s: without %s:\n%s", name, text, detail)
				}
			}
			if strings.Contains(detail, "<button") || strings.Contains(detail, "<form") || name == "kept" && strings.Contains(detail, "suspend kept") {
				t.Errorf("%s: the page offers acts:\n%s", name, detail)
			}
		}
	})
}

// The pages are read only: what a request of a browser could write to the cluster does not exist.
func TestPagesWriteNothing(t *testing.T) {
	may := []string{"/values/check", "/plan", "/config/set"} // they read a body, or change this process
	for _, r := range server.Routes() {
		if r.Method != http.MethodGet && !slices.Contains(may, r.Path) {
			t.Errorf("%s %s", r.Method, r.Path)
		}
	}
}

// BenchmarkLivePage is what an open page with a chosen module costs each second with 500 modules, whose state
// changes all the time.
func BenchmarkLivePage(b *testing.B) {
	system := supervisor.NewSystem(supervisor.Options{Log: slog.New(slog.DiscardHandler)})
	root, err := system.Spawn("operator", func() actor.Actor { return child{system} })
	must(b, err)
	defer system.Actors.Root.Stop(root)
	for i := range 500 {
		system.Send(system.PID("operator"), spawnNamed{fmt.Sprintf("module/m%d", i), view.ModuleStatus{
			Phase: view.Ready, Enabled: true, Order: i, Release: i, LastRun: &view.ModuleRun{Began: time.Now()},
		}})
	}
	for len(system.Inspector.Nodes()) < 501 { // none of them is late for long
		runtime.Gosched()
	}
	source := silent(server.Source{Inspector: system.Inspector, Converge: func() view.ConvergeStatus { return view.ConvergeStatus{Ready: true} }})
	for b.Loop() { // each handler looks for itself
		server.Debug(source).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/?module=m7", http.NoBody))
	}
}

// J7: the public page shows neither errors nor the detail of a module, the debug address both.
func TestDetailIsNotPublic(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.add("operator", "module/dns", view.ModuleStatus{Phase: view.Running, Failing: []view.FailingTask{{Task: "RunModule", Attempts: 1, Error: "hunter2"}}})
		for name, handler := range map[string]http.Handler{"public": server.Public(h.source()), "debug": server.Debug(h.source())} {
			_, text := h.get(handler, "/?module=dns")
			if shown := strings.Contains(text, "hunter2"); shown != (name == "debug") {
				t.Errorf("%s: the error is shown: %v", name, shown)
			}
			if shown := strings.Contains(text, `id="detail-title"`); shown != (name == "debug") {
				t.Errorf("%s: the detail is shown: %v", name, shown)
			}
		}
	})
}

// The page asks the module, and hands on whether secrets may be shown.
func TestDriftPage(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.add("operator", "module/web", view.ModuleStatus{Phase: view.Ready, Drifted: func(secrets bool) messages.Drift {
			found := map[bool]any{true: "huge", false: "***"}[secrets]
			return messages.Drift{Mode: "report", Checked: time.Now(), Objects: []messages.ObjectDrift{
				{Object: "ConfigMap a/web", Fields: []messages.FieldDrift{{Path: "data.size", Found: found, Chart: "small"}}},
			}}
		}})
		for _, c := range []struct {
			url    string
			status int
			want   string
		}{
			{"/module/web/drift", http.StatusOK, `"found": "***"`},
			{"/module/web/drift?show-secrets=true&output=yaml", http.StatusOK, "found: huge"},
			{"/module/nobody/drift", http.StatusNotFound, "not found"},
		} {
			answer := httptest.NewRecorder()
			server.Debug(h.source()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, c.url, http.NoBody))
			if answer.Code != c.status || !strings.Contains(answer.Body.String(), c.want) {
				t.Errorf("%s: %d %s; want %d, %s", c.url, answer.Code, answer.Body, c.status, c.want)
			}
		}
	})
}

// Who asks before the operator has begun learns what it waits for, not that things do not
// exist.
func TestPagesBeforeTheStart(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.converge = view.ConvergeStatus{Waits: "the ConfigMap cannot be read: no"}
		source := h.source()
		source.Ask = func(context.Context, string, any) (any, error) { return nil, errors.New("there is no such actor") }
		for _, path := range []string{"/global/values", "/global/list", "/hook/list", "/module/web/values", "/module/web/render", "/module/web/drift", "/module/resource-monitor", "/plan"} {
			status, body := h.get(server.Debug(source), path)
			if want := "the operator has not started its modules yet: the ConfigMap cannot be read: no\n"; status != http.StatusServiceUnavailable || body != want {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
	})
}

// J4, J5: queues for scripts, main first; one queue alone; as text for people.
func TestQueuePages(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.fill()
		handler := server.Debug(h.source())
		for path, file := range map[string]string{
			"/queue/list.json?showEmpty=true": "queue_list.json",
			"/queue/main.yaml":                "queue_main.yaml",
			"/queue/list.text":                "queue.txt",
			"/queue/main.text":                "queue_main.txt",
		} {
			status, body := h.get(handler, path)
			if status != http.StatusOK {
				t.Errorf("%s: %d", path, status)
			}
			golden.File(t, "testdata/"+file, body)
		}
		if _, body := h.get(handler, "/queue/list?queue=a/b"); body != "{\n  \"name\": \"a/b\",\n  \"tasksCount\": 0\n}\n" {
			t.Errorf("a queue with a slash in its name: %s", body)
		}
		for path, want := range map[string]string{"/queue/list.json?queue=none": "queue \"none\" not found; available: main, a/b, slow\n", "/queue/list?queue=slwo": "queue \"slwo\" not found; did you mean slow?\n"} {
			if status, body := h.get(handler, path); status != http.StatusNotFound || body != want {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		if status, _ := h.get(server.Public(h.source()), "/queue/list.json"); status != http.StatusNotFound {
			t.Errorf("on the public address: %d", status)
		}
	})
}

// The page hands the question on as it is asked, and refuses what is no ConfigMap. It is not
// served before the operator knows its modules.
func TestPlanPage(t *testing.T) {
	var asked []plan.Request
	source := silent(server.Source{
		Metrics: prometheus.NewRegistry(), HookMetrics: prometheus.NewRegistry(),
		Converge: func() view.ConvergeStatus { return view.ConvergeStatus{Phase: view.ConvergeIdle} },
		Plan: func(_ context.Context, r plan.Request) (plan.Plan, error) {
			asked = append(asked, r)
			if r.Proposed["fail"] != "" {
				return plan.Plan{}, errors.New("no way")
			}
			return plan.Plan{Modules: []plan.Module{{Module: "web", Step: plan.StepStart}}}, nil
		},
	})
	for _, c := range []struct {
		method, url, body string
		status            int
		want              string
		asked             *plan.Request
	}{
		{"GET", "/plan", "", 200, `"module": "web"`, &plan.Request{}},
		{"GET", "/plan?output=yaml&show-secrets=true", "", 200, "module: web", &plan.Request{Secrets: true}},
		{"POST", "/plan", `{"webEnabled": "true"}`, 200, `"step": "start"`, &plan.Request{Proposed: map[string]string{"webEnabled": "true"}}},
		{"POST", "/plan", `{}`, 200, `"step": "start"`, &plan.Request{Proposed: map[string]string{}}},
		{"POST", "/plan", `{"web": {"a": 1}}`, 400, "a JSON object of strings", nil},
		{"POST", "/plan", `null`, 400, "a JSON object of strings", nil}, // not the ConfigMap in force
		{"POST", "/plan", `{"web": "` + strings.Repeat("x", 1<<20) + `"}`, 400, "the data has 1048579 bytes; a ConfigMap holds at most 1048576", nil},
		{"POST", "/plan", `{"fail": "yes"}`, 503, "no way", &plan.Request{Proposed: map[string]string{"fail": "yes"}}},
	} {
		asked = nil
		answer := httptest.NewRecorder()
		server.Debug(source).ServeHTTP(answer, httptest.NewRequest(c.method, c.url, strings.NewReader(c.body)))
		if answer.Code != c.status || !strings.Contains(answer.Body.String(), c.want) {
			t.Errorf("%s %s %s: %d %s, want %d and %s", c.method, c.url, c.body, answer.Code, answer.Body, c.status, c.want)
		}
		if c.asked == nil && len(asked) > 0 || c.asked != nil && (len(asked) != 1 || !reflect.DeepEqual(asked[0], *c.asked)) {
			t.Errorf("%s %s %s: asked %+v, want %+v", c.method, c.url, c.body, asked, c.asked)
		}
	}
	source.Converge = func() view.ConvergeStatus { return view.ConvergeStatus{} }
	answer := httptest.NewRecorder()
	server.Debug(source).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/plan", http.NoBody))
	if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), "has not started its modules yet") {
		t.Errorf("before the start: %d %s", answer.Code, answer.Body)
	}
	public := httptest.NewRecorder()
	server.Public(source).ServeHTTP(public, httptest.NewRequest(http.MethodGet, "/plan", http.NoBody))
	if public.Code != http.StatusNotFound {
		t.Errorf("the public page answers %d, want 404: plans hold values", public.Code)
	}
}

// Whether a ConfigMap would be in force is asked of config. What is in force while it is deleted is
// shown only to who asks for secrets (P1).
func TestCheckPage(t *testing.T) {
	var asked []any
	source := silent(server.Source{
		Metrics: prometheus.NewRegistry(), HookMetrics: prometheus.NewRegistry(),
		Converge: func() view.ConvergeStatus { return view.ConvergeStatus{Phase: view.ConvergeIdle} },
		Ask: func(_ context.Context, path string, question any) (any, error) {
			asked = append(asked, question)
			if path != "config" {
				t.Errorf("%s was asked", path)
			}
			check, _ := question.(messages.CheckConfig)
			switch {
			case check.Data["fail"] != "":
				return nil, errors.New("no way")
			case check.Data["web"] == "a: text":
				return messages.ConfigChecked{Refused: "web.a: must be an integer"}, nil
			}
			return messages.ConfigChecked{Deleted: true, LastValid: map[string]string{"web": "password: hunter2"}}, nil
		},
	})
	for _, c := range []struct {
		method, query, body string
		status              int
		want, not           string
		asked               any
	}{
		{"POST", "", `{"web": "a: text"}`, 200, "web.a: must be an integer", "deleted", messages.CheckConfig{Data: map[string]string{"web": "a: text"}}},
		{"POST", "", `{}`, 200, `"deleted": true`, "hunter2", messages.CheckConfig{Data: map[string]string{}}},
		{"POST", "?show-secrets=true", `{}`, 200, "hunter2", "refused", messages.CheckConfig{Data: map[string]string{}}},
		{"POST", "", `{"fail": "yes"}`, 503, "no way", "hunter2", messages.CheckConfig{Data: map[string]string{"fail": "yes"}}},
		{"POST", "", `{"web": {"a": 1}}`, 400, "a JSON object of strings", "hunter2", nil},
		{"POST", "", `null`, 400, "a JSON object of strings", "hunter2", nil},
		{"POST", "", `{"web": "` + strings.Repeat("x", 1<<20) + `"}`, 400, "a ConfigMap holds at most 1048576", "hunter2", nil},
		{"GET", "", "", 405, "", "hunter2", nil},
	} {
		asked = nil
		answer := httptest.NewRecorder()
		server.Debug(source).ServeHTTP(answer, httptest.NewRequest(c.method, "/values/check"+c.query, strings.NewReader(c.body)))
		body := answer.Body.String()
		if answer.Code != c.status || !strings.Contains(body, c.want) || strings.Contains(body, c.not) {
			t.Errorf("%s %s %.40s: %d %s, want %d, %q and not %q", c.method, c.query, c.body, answer.Code, body, c.status, c.want, c.not)
		}
		if c.asked == nil && len(asked) > 0 || c.asked != nil && (len(asked) != 1 || !reflect.DeepEqual(asked[0], c.asked)) {
			t.Errorf("%s %.40s: asked %+v, want %+v", c.method, c.body, asked, c.asked)
		}
	}
}
