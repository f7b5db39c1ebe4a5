package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/messages/view"
	"addon-operator/server"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// events are what a page is sent, one map of parts each.
type events struct {
	*httptest.ResponseRecorder
	mu  sync.Mutex
	all []map[string]any
}

func (e *events) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var event map[string]any
	text := strings.TrimSuffix(strings.TrimPrefix(string(p), "retry: 500\ndata: "), "\n\n")
	if err := json.Unmarshal([]byte(text), &event); err != nil {
		return 0, err
	}
	e.all = append(e.all, event)
	return len(p), nil
}

// take returns the events since the last look.
func (e *events) take() []map[string]any {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

// follow opens the stream of a page until the returned function is called.
func follow(handler http.Handler, path string) (*events, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	e := &events{ResponseRecorder: httptest.NewRecorder()}
	go handler.ServeHTTP(e, httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody))
	return e, cancel
}

// J18: a page is sent everything once, then what has changed, at most once a second, and a sign of life when nothing has.
func TestLiveEvents(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.add("operator", "module/dns", view.ModuleStatus{Phase: view.Ready, Enabled: true, Order: 1})
		source := h.source()
		source.Hide = func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") }
		page, leave := follow(server.Debug(source), "/live")
		defer leave()
		first := page.take()
		if len(first) != 1 || first[0]["rows"] == nil || first[0]["top"] == nil || first[0]["queues"] == nil {
			t.Fatalf("the first event is %v", first)
		}
		time.Sleep(4 * time.Second)
		if got := page.take(); len(got) != 0 {
			t.Errorf("without a change there is %v", got)
		}
		time.Sleep(2 * time.Second)
		if got := page.take(); len(got) != 1 || len(got[0]) != 0 {
			t.Errorf("the sign of life is %v", got)
		}
		h.add("operator", "module/web", view.ModuleStatus{Phase: view.Starting, Enabled: true, Order: 2, Failing: []view.FailingTask{{Task: "RunModule", Attempts: 1, Error: "hunter2 <b>"}}})
		time.Sleep(time.Second)
		got := page.take()
		if len(got) != 1 || !strings.Contains(fmt.Sprint(got[0]["rows"]), `id="m-web"`) {
			t.Fatalf("after a module came there is %v", got)
		}
		time.Sleep(time.Minute)
		if got := page.take(); len(got) < 10 || len(got) > 12 { // the stream ends after a minute, to be authorized again
			t.Errorf("in a minute there were %d signs of life", len(got))
		}
		rows := fmt.Sprint(got[0]["rows"])
		if got[0]["queues"] != nil || !strings.Contains(rows, "*** &lt;b&gt;") || strings.Contains(rows, "hunter2") || !strings.Contains(rows, ">addon-operator retry web</code>") {
			t.Errorf("after a module came the parts are %v", got[0])
		}
		if strings.Index(rows, "m-web") > strings.Index(rows, "m-dns") {
			t.Errorf("the failing module is not the first: %s", rows)
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
			page, leave := follow(server.Debug(source), "/live?module="+name)
			detail, _ := page.take()[0]["detail"].(string)
			leave()
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

// BenchmarkLivePage is what open pages cost each second with 500 modules, whose state changes all the time.
func BenchmarkLivePage(b *testing.B) {
	system := supervisor.NewSystem(supervisor.Options{Log: slog.New(slog.DiscardHandler)})
	root, err := system.Spawn("operator", func() actor.Actor { return child{system} })
	if err != nil {
		b.Fatal(err)
	}
	defer system.Actors.Root.Stop(root)
	for i := range 500 {
		system.Send(system.PID("operator"), spawnNamed{fmt.Sprintf("module/m%d", i), view.ModuleStatus{
			Phase: view.Ready, Enabled: true, Order: i, Release: i, LastRun: &view.ModuleRun{Began: time.Now()}, Health: &view.Health{Objects: 3, Current: 3},
		}})
	}
	for len(system.Inspector.Tree()[0].Children) < 500 { // none of them is late for long
		runtime.Gosched()
	}
	source := server.Source{Inspector: system.Inspector, Converge: func() view.ConvergeStatus { return view.ConvergeStatus{Ready: true} }}
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		cancel() // after the first event
		server.Public(source).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/live", http.NoBody))
	}
}

// J7: the public page shows neither errors nor the detail of a module, the debug address both.
func TestLiveEventsOfThePublic(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.add("operator", "module/dns", view.ModuleStatus{Phase: view.Running, Failing: []view.FailingTask{{Task: "RunModule", Attempts: 1, Error: "hunter2"}}})
		source := h.source()
		source.Ask = func(context.Context, string, any) (any, error) { return nil, errors.New("it is being restarted") }
		for name, handler := range map[string]http.Handler{"public": server.Public(source), "debug": server.Debug(source)} {
			page, leave := follow(handler, "/live?module=dns")
			text := fmt.Sprint(page.take())
			leave()
			synctest.Wait()
			if shown := strings.Contains(text, "hunter2"); shown != (name == "debug") {
				t.Errorf("%s: the error is shown: %v", name, shown)
			}
			if shown := strings.Contains(text, "detail-title"); shown != (name == "debug") {
				t.Errorf("%s: the detail is shown: %v", name, shown)
			}
		}
	})
}
