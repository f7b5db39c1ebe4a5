package apiserver

import (
	_ "embed"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtin are the stable kinds of Kubernetes, one a line: apiVersion, kind, plural,
// singular, short names, scope, subresources.
//
//go:embed kinds.txt
var builtin string

// kind is a kind that is served.
type kind struct {
	schema.GroupVersion
	name, plural, singular string
	short                  []string
	namespaced             bool
	status                 bool // has the subresource status
}

func (k *kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.plural}
}

// answersTo reports whether a word names the kind (C15).
func (k *kind) answersTo(word string) bool {
	same := func(s string) bool { return strings.EqualFold(s, word) }
	return same(k.name) || same(k.plural) || same(k.singular) || slices.ContainsFunc(k.short, same)
}

func builtinKinds() []*kind {
	var list []*kind
	for line := range strings.Lines(builtin) {
		f := strings.Fields(line)
		gv, err := schema.ParseGroupVersion(f[0])
		if err != nil || len(f) != 7 {
			continue // TestBuiltinKinds counts them
		}
		k := &kind{GroupVersion: gv, name: f[1], plural: f[2], singular: f[3], namespaced: f[5] == "namespaced"}
		if f[4] != "-" {
			k.short = strings.Split(f[4], ",")
		}
		k.status = slices.Contains(strings.Split(f[6], ","), "status")
		list = append(list, k)
	}
	return list
}

// definedKinds are the kinds of a CustomResourceDefinition.
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
			short: short, namespaced: text("spec", "scope") != "Cluster", status: status,
		})
	}
	return list
}

// kinds of all that is served; the caller holds the lock.
func (s *Server) kinds() []*kind {
	list := slices.Clone(s.builtin)
	for _, key := range s.sortedKeys(schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}) {
		list = append(list, definedKinds(s.objects[key])...)
	}
	return list
}

// find looks a kind up by a word; an empty apiVersion means any.
func (s *Server) find(apiVersion, word string) *kind {
	var found *kind
	for _, k := range s.kinds() {
		if apiVersion != "" && k.String() != apiVersion || !k.answersTo(word) {
			continue
		}
		if k.name == word {
			return k
		}
		if found == nil {
			found = k
		}
	}
	return found
}

// at looks a kind up by where it is served.
func (s *Server) at(gv schema.GroupVersion, plural string) *kind {
	for _, k := range s.kinds() {
		if k.GroupVersion == gv && k.plural == plural {
			return k
		}
	}
	return nil
}
