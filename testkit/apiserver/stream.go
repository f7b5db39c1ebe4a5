package apiserver

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// frame is one line of a watch.
type frame struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

// serveWatch streams the changes after a resource version, the objects of now before
// them if the client asks for these.
func (s *Server) serveWatch(w http.ResponseWriter, q *request) {
	query := q.URL.Query()
	since, _ := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	limit, err := strconv.Atoi(query.Get("timeoutSeconds"))
	if err != nil {
		limit = 3600
	}
	end := time.NewTimer(time.Duration(limit) * time.Second)
	defer end.Stop()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := json.NewEncoder(w)
	flush := func() { _ = http.NewResponseController(w).Flush() }
	partial := strings.Contains(q.Header.Get("Accept"), "as=PartialObjectMetadata")
	write := func(kind string, u *unstructured.Unstructured) { _ = out.Encode(frame{kind, q.shown(u, partial)}) }

	s.mu.Lock()
	at := 0
	if since == 0 || isTrue(query.Get("sendInitialEvents")) {
		for _, key := range s.sortedKeys(q.kind.resource()) {
			if u := s.objects[key]; q.matches(key, u) {
				write("ADDED", u)
			}
		}
		at = len(s.history)
		if isTrue(query.Get("sendInitialEvents")) {
			mark := &unstructured.Unstructured{Object: map[string]any{"apiVersion": q.kind.String(), "kind": q.kind.name}}
			mark.SetResourceVersion(strconv.FormatInt(s.number, 10))
			mark.SetAnnotations(map[string]string{"k8s.io/initial-events-end": "true"})
			write("BOOKMARK", mark)
		}
	}
	s.mu.Unlock()
	for {
		s.mu.Lock()
		events, news := s.history[at:], s.news
		at = len(s.history)
		s.mu.Unlock()
		for _, e := range events {
			before, after := q.matches(e.key, e.before), q.matches(e.key, e.after)
			switch {
			case e.number <= since:
			case after && !before:
				write("ADDED", e.after)
			case after:
				write("MODIFIED", e.after)
			case before:
				gone := e.before.DeepCopy()
				gone.SetResourceVersion(strconv.FormatInt(e.number, 10))
				write("DELETED", gone)
			}
		}
		flush()
		select {
		case <-news:
		case <-q.Context().Done():
			return
		case <-end.C:
			return
		}
	}
}
