package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/kube"
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

// WatchObjects is the watch of a kubernetes binding, as kube.Watcher has it, which reports changes in the goroutine
// that makes them. It ends with its context. The functions are called with the lock of the store held, so they may
// not call the server.
func (s *Server) WatchObjects(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (*kube.Watch, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.watcher.Watch(ctx, spec, notify, synced)
}

// Kind implements kube.Origin.
func (s *store) Kind(apiVersion, word string) (resource schema.GroupVersionResource, name string, namespaced, found bool) {
	k := s.kinds.find(apiVersion, word)
	if k == nil {
		return resource, "", false, false
	}
	return k.WithResource(k.plural), k.name, k.namespaced, true
}

// feed is a share of a watch of the operator.
type feed struct {
	*kube.Feed
	selection
}

// Feed implements kube.Origin.
func (s *store) Feed(f *kube.Feed) {
	selected, _ := newSelection(f.Labels, f.Fields) // kube has checked them
	selected.resource, selected.namespace = f.Resource.GroupResource(), f.Namespace
	next := feed{f, selected}
	s.feeds = append(s.feeds, next)
	s.begin(next)
}

// begin lists the objects of a feed, unless they may not be read.
func (s *store) begin(f feed) {
	if s.refused(f) {
		f.Refuse(apierrors.NewForbidden(f.resource, "", errors.New("no rule allows it")))
		return
	}
	var list []*unstructured.Unstructured
	for _, at := range s.keys(f.matches) {
		list = append(list, withoutManagers(s.objects[at]))
	}
	f.List(list)
}

// see passes a change on; the caller holds the store's lock.
func (s *store) see(f feed, e event) {
	if s.refused(f) {
		return
	}
	switch change, u := f.shows(e); change {
	case "":
	case "DELETED":
		f.Remove(withoutManagers(u))
	default:
		f.Put(withoutManagers(u))
	}
}

func (s *store) refused(f feed) bool {
	return s.denied[key{resource: f.resource}] || s.denied[key{resource: f.resource, namespace: f.namespace}]
}

// Deny takes the permission to read a kind from the watches of the operator, in one namespace or,
// if that is empty, everywhere; or gives it back. A watch over all namespaces has one permission
// for all of them, other watches one for each namespace. Changes are not reported while the
// permission lacks.
func (s *Server) Deny(word, namespace string, denied bool) error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	k := s.store.kinds.find("", word)
	if k == nil {
		return fmt.Errorf("there is no kind %s", word)
	}
	s.store.denied[key{resource: k.resource(), namespace: namespace}] = denied
	for _, f := range s.store.current() {
		if f.resource == k.resource() {
			s.store.begin(f)
		}
	}
	return nil
}

// current are the feeds that have not ended. Reports may begin new ones.
func (s *store) current() []feed {
	s.feeds = slices.DeleteFunc(s.feeds, feed.Ended)
	return slices.Clone(s.feeds)
}
