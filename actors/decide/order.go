package decide

import (
	"cmp"
	"slices"
	"strings"
)

// Object names an object of a release. It has no version: objects of all versions of a kind are the
// same.
type Object struct{ Group, Kind, Namespace, Name string }

// Need is what the objects of a module lack in the cluster. One of the fields is set, or both of a
// kind. The forms differ because needs are read from errors, and an error names a kind either as
// the manifest does or as the API server does.
type Need struct {
	// Group and Kind are of a kind that the API server does not know.
	Group, Kind string
	// Resource is such a kind as the API server calls it: plural.group.
	Resource string
	// Namespace does not exist.
	Namespace string
	// Service is that of a webhook that does not answer: namespace/name.
	Service string
	// API is the group of an API whose server does not answer.
	API string
}

// String describes a need for people.
func (n Need) String() string {
	switch {
	case n.Kind != "":
		return "kind " + n.Kind + " of " + cmp.Or(n.Group, "v1")
	case n.Resource != "":
		return "kind " + n.Resource
	case n.Namespace != "":
		return "namespace " + n.Namespace
	case n.Service != "":
		return "webhook of service " + n.Service
	}
	return "API " + n.API
}

// Provider is a module that provides what another one needs.
type Provider struct {
	Module string
	Need   Need // one of them
}

// Providers are the modules that provide what a module needs, in the order of modules: those that
// have the definition of the kind, the namespace, the service or the APIService among their
// objects. provides has the objects of the enabled modules, by module. Of several candidates only
// those that fit best count. A module that provides several things is listed once, with the first
// need: one run of it brings all.
func Providers(consumer string, needs []Need, order []string, provides map[string][]Object) (list []Provider) {
	found := map[string]Need{}
	for _, need := range needs {
		best := 0
		var names []string
		for _, name := range order {
			if name == consumer {
				continue
			}
			switch fit := fits(need, provides[name]); {
			case fit == 0 || fit < best:
			case fit > best:
				best, names = fit, []string{name}
			default:
				names = append(names, name)
			}
		}
		for _, name := range names {
			if _, known := found[name]; !known {
				found[name] = need
			}
		}
	}
	for _, name := range order {
		if need, ok := found[name]; ok {
			list = append(list, Provider{name, need})
		}
	}
	return list
}

// How well an object provides what is needed; 0 is not at all. The name of a definition has the
// plural of its kind, which can only be guessed; another definition of the same group, or its
// APIService, is the next best.
const (
	maybe  = 1
	surely = 2
)

// fits is how well the best of the objects provides what is needed.
func fits(need Need, objects []Object) (best int) {
	for _, o := range objects {
		best = max(best, fit(need, o))
	}
	return best
}

// fit is how well one object provides what is needed. An empty field of the need fits nothing,
// which the cases of an APIService must see to: the part after the dot is empty when there is no
// dot.
func fit(need Need, o Object) int {
	switch o.Group + "/" + o.Kind {
	case "apiextensions.k8s.io/CustomResourceDefinition":
		return fitDefinition(need, o.Name)
	case "apiregistration.k8s.io/APIService":
		_, group, _ := strings.Cut(o.Name, ".")
		_, resource, _ := strings.Cut(need.Resource, ".")
		switch group {
		case "":
		case need.API:
			return surely
		case need.Group, resource:
			return maybe
		}
	case "/Namespace":
		if o.Name == need.Namespace {
			return surely
		}
	case "/Service":
		if o.Namespace+"/"+o.Name == need.Service {
			return surely
		}
	}
	return 0
}

// Defines reports whether a definition with this name is certainly of a kind that is needed.
func Defines(definition string, needs []Need) bool {
	return slices.ContainsFunc(needs, func(n Need) bool { return fitDefinition(n, definition) == surely })
}

// fitDefinition takes the name of a definition, which is plural.group.
func fitDefinition(need Need, name string) int {
	plural, group, _ := strings.Cut(name, ".")
	switch {
	case name == need.Resource, need.Kind != "" && group == need.Group && slices.Contains(plurals(need.Kind), plural):
		return surely
	case need.Kind != "" && group == need.Group:
		return maybe
	}
	return 0
}

// plurals are the usual plurals of a kind, in lower case.
func plurals(kind string) []string {
	word := strings.ToLower(kind)
	all := []string{word, word + "s", word + "es"}
	if rest, ok := strings.CutSuffix(word, "y"); ok {
		all = append(all, rest+"ies")
	}
	return all
}

// HealOrder sorts modules whose objects are gone: in the order of modules, except that a module
// comes after those which had the definitions of its kinds, or its namespaces, among what is gone
// (H13). Without these its objects could not be created. Only what is certain moves a module: a
// guess would delay others for nothing.
func HealOrder(order []string, gone map[string][]Object) (sorted []string) {
	visited := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if visited[name] {
			return // also when two need each other: then the order of modules counts
		}
		visited[name] = true
		for _, other := range sortedBy(order, gone) {
			if other != name && slices.ContainsFunc(gone[name], func(o Object) bool {
				return slices.ContainsFunc(needsOf(o), func(n Need) bool { return fits(n, gone[other]) == surely })
			}) {
				visit(other)
			}
		}
		sorted = append(sorted, name)
	}
	for _, name := range sortedBy(order, gone) {
		visit(name)
	}
	return sorted
}

// needsOf is what an object needs of the cluster, so that it can be created.
func needsOf(o Object) []Need {
	needs := []Need{{Group: o.Group, Kind: o.Kind}}
	if o.Namespace != "" {
		needs = append(needs, Need{Namespace: o.Namespace})
	}
	return needs
}

// sortedBy are the modules in their order; those that are not in it come last, by name.
func sortedBy(order []string, of map[string][]Object) []string {
	var names []string
	for name := range of {
		names = append(names, name)
	}
	place := func(name string) int {
		if i := slices.Index(order, name); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b)) })
	return names
}
