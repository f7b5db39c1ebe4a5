package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// frame is one line of a watch.
type frame struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

// watch streams the changes after a resource version, the objects of now before them if the client
// asks for these. It reads the history again after each change, so there is no queue that a slow
// client could make grow: the version of such a client becomes too old. It returns an error only
// before the first byte.
func (q *request) watch(w http.ResponseWriter) error {
	since, err := watchFrom(q.query)
	if err != nil {
		return err
	}
	end := time.NewTimer(watchLimit(q.query))
	defer end.Stop()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := json.NewEncoder(w)
	write := func(kind string, u *unstructured.Unstructured) { _ = out.Encode(frame{kind, q.shown(u)}) }
	if since == present {
		since = q.streamAll(write)
	}
	for {
		q.store.mu.Lock()
		events, known := q.store.history.since(since)
		// news is read together with the changes: none can come between the two and be missed.
		oldest, newest, news := q.store.history.floor, q.store.number, q.store.history.news
		q.store.mu.Unlock()
		if !known {
			_ = out.Encode(frame{"ERROR", tooOld(since, oldest)})
			return nil
		}
		since = max(since, newest) // a client may name a version that is yet to come
		for _, e := range events {
			if change, u := q.shows(e); u != nil {
				write(change, u)
			}
		}
		_ = http.NewResponseController(w).Flush() // a writer that cannot flush holds nothing back
		select {
		case <-news:
		case <-q.http.Context().Done():
			return nil
		case <-end.C:
			return nil
		}
	}
}

// present is no version: those are not negative.
const present = -1

// watchFrom is the version that a client has seen; present, when it requests the objects of now first.
func watchFrom(query url.Values) (since int64, err error) {
	if isTrue(query.Get("sendInitialEvents")) {
		if query.Get("resourceVersionMatch") != "NotOlderThan" {
			return 0, failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`)
		}
		return present, nil
	}
	version := query.Get("resourceVersion")
	if version == "" || version == "0" {
		return present, nil
	}
	seen, err := strconv.ParseUint(version, 10, 63)
	if err != nil {
		return 0, internal(fmt.Sprintf("resourceVersion: Invalid value: %q: strconv.ParseUint: parsing %q: invalid syntax", version, version))
	}
	return int64(seen), nil
}

// watchLimit is how long a watch lasts. Clients begin it again from the last version that they have
// seen; without a limit of theirs it is an hour. So it is with a limit of minutes: reflectors draw theirs by
// lot, and a script must see the same each time.
func watchLimit(query url.Values) time.Duration {
	seconds, err := strconv.Atoi(query.Get("timeoutSeconds"))
	if err != nil || seconds > 120 {
		seconds = 3600
	}
	return time.Duration(seconds) * time.Second
}

// streamAll writes the present objects and returns their version, from which the watch continues. A client
// that asked for it receives a bookmark, which means that these are all objects.
func (q *request) streamAll(write func(string, *unstructured.Unstructured)) int64 {
	list, version := q.selected()
	for _, u := range list {
		write("ADDED", u)
	}
	if isTrue(q.query.Get("sendInitialEvents")) {
		mark := blank(q.kind)
		mark.SetResourceVersion(strconv.FormatInt(version, 10))
		mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		write("BOOKMARK", mark)
	}
	return version
}

// tooOld is the error of a watch from a version whose changes are forgotten.
func tooOld(since, oldest int64) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Status", "metadata": map[string]any{}, "status": metav1.StatusFailure,
		"code": http.StatusGone, "reason": string(metav1.StatusReasonExpired), "message": fmt.Sprintf("too old resource version: %d (%d)", since, oldest),
	}
}
