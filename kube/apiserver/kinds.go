package apiserver

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
