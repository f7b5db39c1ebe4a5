package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/messages/view"
	"addon-operator/server"
	"addon-operator/supervisor"
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
	for len(system.Inspector.Tree()[0].Children) < 500 { // none of them is late for long
		runtime.Gosched()
	}
	source := server.Source{Inspector: system.Inspector, Converge: func() view.ConvergeStatus { return view.ConvergeStatus{Ready: true} }}
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
