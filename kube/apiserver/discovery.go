package apiserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// serveDiscovery answers requests for versions, kinds and OpenAPI documents, which clients send
// before those for objects, and reports whether the path was one of these. A version whose API
// server is away is listed as a group but answers 503, from which clients conclude that it is away
// (P13).
func serveDiscovery(w http.ResponseWriter, r *http.Request, served kinds, about version.Info) bool {
	path := strings.Trim(r.URL.Path, "/")
	if gv, rest := splitPath(path); gv.Version != "" && len(rest) == 0 { // which resources a version has
		list := resources(served.all, gv)
		switch {
		case slices.Contains(served.away, gv):
			writeError(w, apierrors.NewServiceUnavailable("the server is currently unable to handle the request"))
		case len(list.APIResources) == 0:
			return false
		default:
			writeJSON(w, http.StatusOK, list)
		}
		return true
	}
	switch path {
	case "version":
		writeJSON(w, http.StatusOK, about)
	case "api":
		writeJSON(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case "apis":
		// There is no aggregated discovery: clients that prefer it fall back to one request for each version.
		writeJSON(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: groups(served)})
	case "openapi/v2":
		writeOpenAPI(w, served.all)
	default:
		return false
	}
	return true
}

// groups lists the API groups, in the order of the kinds. The first version of a group is the
// preferred one. The core group, which has no name, is not among them: clients ask for it by
// another path.
func groups(served kinds) []metav1.APIGroup {
	list := []metav1.APIGroup{} // not nil: in JSON it must be a list
	add := func(gv schema.GroupVersion) {
		if gv.Group == "" {
			return
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		i := slices.IndexFunc(list, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
		if i < 0 {
			list = append(list, metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: gv.Group, PreferredVersion: v})
			i = len(list) - 1
		}
		if !slices.Contains(list[i].Versions, v) {
			list[i].Versions = append(list[i].Versions, v)
		}
	}
	for _, k := range served.all {
		add(k.GroupVersion)
	}
	for _, gv := range served.away {
		add(gv)
	}
	return list
}

// resources lists the kinds of a version with their subresources. Namespaces cannot be deleted as a
// collection.
func resources(all []*kind, gv schema.GroupVersion) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(), APIResources: []metav1.APIResource{}}
	for _, k := range all {
		if k.GroupVersion != gv {
			continue
		}
		verbs := metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
		if k.resource() == namespaces {
			verbs = slices.Delete(verbs, 2, 3)
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: k.plural, SingularName: k.singular, Namespaced: k.namespaced, Kind: k.name, ShortNames: k.short, Verbs: verbs,
		})
		if k.status {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.plural + "/status", Namespaced: k.namespaced, Kind: k.name, Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
	}
	return list
}

// writeOpenAPI answers what kubectl asks for before it writes: the kinds, each with any
// fields. kubectl reads nothing but protobuf, and this version of the document where there is no newer one.
func writeOpenAPI(w http.ResponseWriter, all []*kind) {
	definitions := map[string]any{}
	for _, k := range all {
		definitions[k.String()+"."+k.name] = map[string]any{
			"type":                            "object",
			"x-kubernetes-group-version-kind": []any{map[string]any{"group": k.Group, "version": k.Version, "kind": k.name}},
		}
	}
	text, err := json.Marshal(map[string]any{
		"swagger": "2.0", "info": map[string]any{"title": "scenario", "version": "v1"}, "paths": map[string]any{}, "definitions": definitions,
	})
	var data []byte
	if err == nil {
		var document *openapi_v2.Document
		if document, err = openapi_v2.ParseDocument(text); err == nil {
			data, err = proto.Marshal(document)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
	_, _ = w.Write(data) // a client that is gone needs no answer
}
