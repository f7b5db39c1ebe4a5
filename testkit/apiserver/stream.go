package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// frame is one line of a watch.
type frame struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

// serveWatch streams the changes after a resource version, the objects of now before
// them if the client asks for these.
func (s *Server) serveWatch(w http.ResponseWriter, q *request) error {
	since, all, err := watchFrom(q)
	if err != nil {
		return err
	}
	end := time.NewTimer(watchLimit(q))
	defer end.Stop()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := json.NewEncoder(w)
	partial := strings.Contains(q.Header.Get("Accept"), "as=PartialObjectMetadata")
	write := func(kind string, u *unstructured.Unstructured) { _ = out.Encode(frame{kind, q.shown(u, partial)}) }
	if all {
		since = s.streamAll(q, write)
	}
	for {
		s.mu.Lock()
		events, known := s.since(since)
		oldest, newest, news := s.floor, s.number, s.news
		s.mu.Unlock()
		if !known {
			_ = out.Encode(frame{"ERROR", tooOld(since, oldest)})
			return nil
		}
		since = max(since, newest)
		for _, e := range events {
			q.tell(e, write)
		}
		_ = http.NewResponseController(w).Flush() // who cannot, holds nothing back
		select {
		case <-news:
		case <-q.Context().Done():
			return nil
		case <-end.C:
			return nil
		}
	}
}

// watchFrom is the version that a client has seen; all, when it wants what is there first.
func watchFrom(q *request) (since int64, all bool, err error) {
	query := q.URL.Query()
	if isTrue(query.Get("sendInitialEvents")) {
		if query.Get("resourceVersionMatch") != "NotOlderThan" {
			return 0, false, &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
				Message: `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`,
			}}
		}
		return 0, true, nil
	}
	version := query.Get("resourceVersion")
	if version == "" || version == "0" {
		return 0, true, nil
	}
	if since, err = strconv.ParseInt(version, 10, 64); err != nil {
		return 0, false, internal(fmt.Sprintf("resourceVersion: Invalid value: %q: strconv.ParseUint: parsing %q: invalid syntax", version, version))
	}
	return since, false, nil
}

func watchLimit(q *request) time.Duration {
	seconds, err := strconv.Atoi(q.URL.Query().Get("timeoutSeconds"))
	if err != nil {
		seconds = 3600
	}
	return time.Duration(seconds) * time.Second
}

// streamAll writes the objects of now and returns their version.
func (s *Server) streamAll(q *request, write func(string, *unstructured.Unstructured)) int64 {
	s.mu.Lock()
	var list []*unstructured.Unstructured
	for _, at := range s.sortedKeys(q.kind.resource()) {
		if u := s.objects[at]; q.matches(at, u) {
			list = append(list, u)
		}
	}
	version := s.number
	s.mu.Unlock()
	for _, u := range list {
		write("ADDED", u)
	}
	if isTrue(q.URL.Query().Get("sendInitialEvents")) {
		mark := blank(q.kind)
		mark.SetResourceVersion(strconv.FormatInt(version, 10))
		mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		write("BOOKMARK", mark)
	}
	return version
}

// tell writes a change as the selection of the request shows it.
func (q *request) tell(e event, write func(string, *unstructured.Unstructured)) {
	switch before, after := q.matches(e.key, e.before), q.matches(e.key, e.after); {
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

// tooOld is what a watch gets that asks for changes which are forgotten.
func tooOld(since, oldest int64) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Status", "metadata": map[string]any{}, "status": metav1.StatusFailure,
		"code": http.StatusGone, "reason": string(metav1.StatusReasonExpired), "message": fmt.Sprintf("too old resource version: %d (%d)", since, oldest),
	}
}
