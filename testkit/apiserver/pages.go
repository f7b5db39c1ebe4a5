package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// page is what the token of a list says: the version of all its pages, and where the next
// one begins.
type page struct {
	Version int64  `json:"v"`
	After   string `json:"after"` // path of the last object
}

func (p page) token() string {
	data, _ := json.Marshal(p) // a number and a text can be written
	return base64.RawURLEncoding.EncodeToString(data)
}

// pageOf is the page that a query asks for; nil for the objects of now.
func pageOf(query url.Values) (*page, error) {
	if token := query.Get("continue"); token != "" {
		data, err := base64.RawURLEncoding.DecodeString(token)
		p := &page{}
		if err == nil {
			err = json.Unmarshal(data, p)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest("invalid continue token: continue key is not valid: " + err.Error())
		}
		return p, nil
	}
	if query.Get("resourceVersionMatch") != "Exact" {
		return nil, nil
	}
	version, err := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest("invalid resourceVersion: " + err.Error())
	}
	return &page{Version: version}, nil
}

// list is a page of the objects that are asked for.
func (s *Server) list(q *request) (*unstructured.UnstructuredList, error) {
	p, err := pageOf(q.URL.Query())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	objects, version := s.objects, s.number
	if p != nil {
		if objects = s.asOf(p.Version); objects == nil {
			return nil, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.")
		}
		version = p.Version
	}
	var items []unstructured.Unstructured
	for _, at := range slices.SortedFunc(maps.Keys(objects), key.compare) {
		if u := objects[at]; q.matches(at, u) && (p == nil || at.path() > p.After) {
			items = append(items, *u)
		}
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": q.kind.String(), "kind": q.kind.name + "List"}}
	list.SetResourceVersion(strconv.FormatInt(version, 10))
	if limit, err := strconv.Atoi(q.URL.Query().Get("limit")); err == nil && limit > 0 && len(items) > limit {
		last := items[limit-1]
		list.SetContinue(page{version, key{namespace: last.GetNamespace(), name: last.GetName()}.path()}.token())
		if q.selection.labels.Empty() && q.selection.fields.Empty() { // a real one does not know how many match
			left := int64(len(items) - limit)
			list.SetRemainingItemCount(&left)
		}
		items = items[:limit]
	}
	list.Items = items
	return list, nil
}

// asOf are the objects as they were at a version, nil when that is forgotten.
func (s *Server) asOf(version int64) map[key]*unstructured.Unstructured {
	events, known := s.since(version)
	if !known {
		return nil
	}
	objects := maps.Clone(s.objects)
	for _, e := range slices.Backward(events) {
		if e.before == nil {
			delete(objects, e.key)
		} else {
			objects[e.key] = e.before
		}
	}
	return objects
}
