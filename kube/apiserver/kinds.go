package apiserver

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// builtin are the stable kinds of Kubernetes, one a line: apiVersion, kind, plural,
// singular, short names, scope, and what else there is: the subresource status, a
// generation.
//
//go:embed kinds.txt
var builtin string

// kind is a kind that is served, in one version. It never changes: a new definition makes new ones.
type kind struct {
	schema.GroupVersion
	name, plural, singular string
	short                  []string
	namespaced             bool
	status                 bool // has the subresource status
	generation             bool // counts the changes of what is wanted
	custom                 bool // comes from a CustomResourceDefinition
}

// Kinds that have more to do than others.
var (
	namespaces  = schema.GroupResource{Resource: "namespaces"}                                               //nolint:gochecknoglobals // a constant
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"} //nolint:gochecknoglobals // a constant
)

func (k *kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.plural}
}

// answersTo reports whether a word names the kind (C15). Of the ranks that kube has for words, only
// the first one counts here: see find.
func (k *kind) answersTo(word string) bool {
	same := func(s string) bool { return strings.EqualFold(s, word) }
	return same(k.name) || same(k.plural) || same(k.singular) || slices.ContainsFunc(k.short, same)
}

// builtinKinds are read once and never written to.
var builtinKinds = sync.OnceValue(func() []*kind {
	var list []*kind
	for line := range strings.Lines(builtin) {
		f := strings.Fields(line)
		gv, err := schema.ParseGroupVersion(f[0])
		if err != nil || len(f) != 7 {
			continue // a mistake in the file; TestBuiltinKinds counts the kinds
		}
		k := &kind{GroupVersion: gv, name: f[1], plural: f[2], singular: f[3], namespaced: f[5] == "namespaced"}
		if f[4] != "-" {
			k.short = strings.Split(f[4], ",")
		}
		extras := strings.Split(f[6], ",")
		k.status, k.generation = slices.Contains(extras, "status"), slices.Contains(extras, "generation")
		list = append(list, k)
	}
	return list
})

// definedKinds are the kinds of a CustomResourceDefinition, one for each version that is served.
// The definition may be incomplete, as no schema has checked it: what is missing is empty.
func definedKinds(crd *unstructured.Unstructured) []*kind {
	text := func(fields ...string) string {
		s, _, _ := unstructured.NestedString(crd.Object, fields...)
		return s
	}
	short, _, _ := unstructured.NestedStringSlice(crd.Object, "spec", "names", "shortNames")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	singular := text("spec", "names", "singular")
	if singular == "" {
		singular = strings.ToLower(text("spec", "names", "kind"))
	}
	var list []*kind
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if served, _ := version["served"].(bool); !served {
			continue
		}
		name, _ := version["name"].(string)
		_, status, _ := unstructured.NestedMap(version, "subresources", "status")
		list = append(list, &kind{
			GroupVersion: schema.GroupVersion{Group: text("spec", "group"), Version: name},
			name:         text("spec", "names", "kind"), plural: text("spec", "names", "plural"), singular: singular,
			short: short, namespaced: text("spec", "scope") != "Cluster", status: status, generation: true, custom: true,
		})
	}
	return list
}

// listedKinds are the kinds that another API server lists, without subresources.
func listedKinds(list *metav1.APIResourceList) []*kind {
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return nil // a server that cannot spell its own group serves nothing that can be requested
	}
	var all []*kind
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") {
			all = append(all, &kind{GroupVersion: gv, name: r.Kind, plural: r.Name, singular: r.SingularName, short: r.ShortNames, namespaced: r.Namespaced})
		}
	}
	return all
}

// kinds are all that is served: the built-in ones, and then those of CustomResourceDefinitions in
// the order of their names. A copy stays as it is, so a request uses one without the lock.
type kinds struct {
	all   []*kind
	fixed int                   // so many of them do not come from CustomResourceDefinitions
	away  []schema.GroupVersion // what they serve is unknown: their server does not answer
}

// define replaces the kinds of CustomResourceDefinitions.
func (c *kinds) define(defined []*kind) { c.all = slices.Concat(c.all[:c.fixed], defined) }

// find looks a kind up by a word; an empty apiVersion means any. The exact name of a kind wins over
// other words that name one; of several, the first.
func (c kinds) find(apiVersion, word string) (found *kind) {
	for _, k := range c.all {
		switch {
		case apiVersion != "" && k.String() != apiVersion:
		case k.name == word:
			return k
		case found == nil && k.answersTo(word):
			found = k
		}
	}
	return found
}

// at looks a kind up by where it is served.
func (c kinds) at(gv schema.GroupVersion, plural string) *kind {
	for _, k := range c.all {
		if k.GroupVersion == gv && k.plural == plural {
			return k
		}
	}
	return nil
}

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
