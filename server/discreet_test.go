package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
)

// J9, J10: every page hides known secrets, on the debug address unless somebody asks for them, and commands no
// terminal; so do the labels of metrics.
func TestPagesAreDiscreet(t *testing.T) {
	s := Source{Hide: func(text string) string { return strings.ReplaceAll(text, "planted", "***") }}
	kinds := map[string]string{"text/plain; charset=utf-8": "a\x1b[31m planted \u009b\x7f\nb", "application/json": "{\"a\":\"planted \u009b\x7f\"}"}
	want := map[string]string{"text/plain; charset=utf-8": "a\\x1b[31m *** \\u009b\\x7f\nb", "application/json": `{"a":"*** \u009b\u007f"}`}
	for kind, content := range kinds {
		page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			w.WriteHeader(http.StatusTeapot)
			for i := range len(content) { // a secret lies across writes
				_, _ = w.Write([]byte{content[i]})
			}
		})
		ask := func(who audience, path string) (int, string) {
			w := httptest.NewRecorder()
			router{s, who}.discreet(page).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
			return w.Code, w.Body.String()
		}
		for _, who := range []audience{public, insider} {
			if status, got := ask(who, "/queue"); got != want[kind] || status != http.StatusTeapot {
				t.Errorf("%d %q, want %q", status, got, want[kind])
			}
		}
		if _, got := ask(public, "/queue?show-secrets=true"); got != want[kind] {
			t.Errorf("the public is shown %q", got)
		}
		if _, got := ask(insider, "/queue?show-secrets=true"); got != strings.ReplaceAll(want[kind], "***", "planted") {
			t.Errorf("who asks for secrets is shown %q", got)
		}
	}
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "g", Help: "g"}, []string{"word"})
	gauge.WithLabelValues("planted \x1b[2J").Set(1)
	registry.MustRegister(gauge)
	families, err := discreetMetrics{registry, s.Hide}.Gather()
	if err != nil || families[0].GetMetric()[0].GetLabel()[0].GetValue() != `*** \x1b[2J` {
		t.Errorf("%v, %v", families, err)
	}
}

// J9: YAML folds a long text; a secret is hidden before. A number that is one is hidden, too.
func TestYAMLIsDiscreet(t *testing.T) {
	secret := strings.Repeat("planted word ", 20) + "end"
	s := Source{Hide: strings.NewReplacer(secret, "***", "123456", "***").Replace}
	for want, data := range map[string]any{
		"a: it is ***\n":         map[string]any{"a": "it is " + secret},
		"a: it is ***\nb: ***\n": map[string]any{"a": "it is 123456", "b": 123456},
	} {
		w := httptest.NewRecorder()
		router{s, public}.discreet(page{look: func(*http.Request) (any, error) { return data, nil }, usual: asYAML}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		if got := w.Body.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Two heavy pages are made at a time, others at once; one that waits for too long is refused. J8.
func TestHeavyPagesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			running += n
			most = max(most, running)
		}
		done := make(chan struct{})
		pages := newGate().handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !heavy(r) {
				return
			}
			count(1)
			<-done
			count(-1)
			text(w, http.StatusOK, "done")
		}))
		ask := func(method, path string) (answered chan *httptest.ResponseRecorder) {
			answered = make(chan *httptest.ResponseRecorder, 1)
			go func() {
				w := httptest.NewRecorder()
				pages.ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody))
				answered <- w
			}()
			synctest.Wait()
			return answered
		}
		first, second := ask("POST", "/values/check"), ask("GET", "/plan.yaml")
		third := ask("GET", "/module/a/render")
		if w := <-ask("GET", "/queue/list"); w.Code != http.StatusOK {
			t.Errorf("a light page is answered by %d", w.Code)
		}
		if w := <-third; w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "try again later") { // after 30 s
			t.Errorf("the third is answered by %d %s", w.Code, w.Body)
		}
		fourth := ask("GET", "/plan")
		close(done)
		for _, answered := range []chan *httptest.ResponseRecorder{first, second, fourth} {
			if w := <-answered; w.Code != http.StatusOK {
				t.Errorf("answered by %d %s", w.Code, w.Body)
			}
		}
		if most != maxHeavy {
			t.Errorf("%d ran at a time, want %d", most, maxHeavy)
		}
	})
}
