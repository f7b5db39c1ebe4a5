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

// page is the content of the token of a list: the version of all its pages, and the beginning of
// the next one. The history makes the objects of that version again, so no list is kept between two
// requests.
type page struct {
	Version int64  `json:"v"`
	After   string `json:"after"` // path of the last object
}

func (p page) token() string {
	data, _ := json.Marshal(p) // a number and a text can be written
	return base64.RawURLEncoding.EncodeToString(data)
}

// now means the latest version. It is not itself a version: these are not negative.
const now = -1

// pageOf is the page that a query asks for. A resourceVersion without resourceVersionMatch=Exact
// asks for a state that is not older, which the latest is.
func pageOf(query url.Values) (p page, err error) {
	if token := query.Get("continue"); token != "" {
		data, err := base64.RawURLEncoding.DecodeString(token)
		if err == nil {
			err = json.Unmarshal(data, &p)
		}
		if err != nil {
			return p, apierrors.NewBadRequest("invalid continue token: continue key is not valid: " + err.Error())
		}
		return p, nil
	}
	if query.Get("resourceVersionMatch") != "Exact" {
		return page{Version: now}, nil
	}
	version, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 63)
	if err != nil {
		return p, apierrors.NewBadRequest("invalid resourceVersion: " + err.Error())
	}
	return page{Version: int64(version)}, nil
}

// list is a page of the objects that are asked for. Without a limit it is all of them; a limit that
// is no number counts as none.
func (q *request) list() (*unstructured.UnstructuredList, error) {
	p, err := pageOf(q.query)
	if err != nil {
		return nil, err
	}
	items, version, known := q.selected(p)
	if !known {
		return nil, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.")
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": q.kind.String(), "kind": q.kind.name + "List"}, Items: items}
	list.SetResourceVersion(strconv.FormatInt(version, 10))
	if limit, err := strconv.Atoi(q.query.Get("limit")); err == nil && limit > 0 && len(items) > limit {
		last := items[limit-1]
		list.SetContinue(page{version, key{namespace: last.GetNamespace(), name: last.GetName()}.path()}.token())
		if q.selection.labels.Empty() && q.selection.fields.Empty() { // a real one does not count the objects that match
			left := int64(len(items) - limit)
			list.SetRemainingItemCount(&left)
		}
		list.Items = items[:limit]
	}
	return list, nil
}

// selected are the objects of a page and all later ones, in the order of the pages, and their
// version; it reports false when that is forgotten.
func (q *request) selected(p page) (list []unstructured.Unstructured, version int64, known bool) {
	objects, version := q.store.asOf(p.Version)
	for _, at := range slices.SortedFunc(maps.Keys(objects), key.compare) {
		if u := objects[at]; q.matches(at, u) && (p.After == "" || at.path() > p.After) {
			list = append(list, *u)
		}
	}
	return list, version, objects != nil
}
