package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

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
