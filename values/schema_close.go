package values

import (
	"slices"
	"strconv"
	"strings"
)

// close makes a schema refuse the keys that it does not have (D31, X28), unless it has
// additionalProperties of its own, or names no keys at all.
//
// A schema without branches gets additionalProperties. With branches (allOf, oneOf, $ref and so on)
// no single place has all keys. Then three things work together:
//
//   - unevaluatedProperties counts the keys of those branches that fit the value;
//   - the shape, which is returned to be checked in addition to the schema, has the keys of all
//     branches, so that a misspelled key is found even if a branch does not fit for another reason;
//   - children that several places describe are left open there (m.shared), and closed by the shape
//     with the keys of all of these places.
//
// The shape must not be part of the schema: the keys that it has would count as evaluated.
func (t *translator) close(out map[string]any, p place, m *mode) any {
	places := t.together(p.at)
	_, explicit := p.node["additionalProperties"]
	closes := !explicit && slices.ContainsFunc(places, place.declares)
	if len(places) == 1 {
		if closes {
			out["additionalProperties"] = nothing()
		}
		return nil
	}
	m.shared = map[string]bool{}
	for name, ats := range childrenOf(places) {
		if len(ats) > 1 {
			m.shared[name] = true
		}
	}
	if closes {
		out["unevaluatedProperties"] = nothing()
	}
	if !closes && len(m.shared) == 0 {
		return nil
	}
	return t.shape(places, m.shared)
}

// together returns the places that apply to the same value as the given ones: the targets of $ref and all branches.
// not and if are left out: they do not describe the value, they only test it.
func (t *translator) together(ats ...string) (found []place) {
	known := map[string]bool{}
	var visit func(at string)
	visit = func(at string) {
		node, _ := At(t.root, at)
		schema, _ := node.(map[string]any)
		p := place{at, schema}
		if known[at] || !t.spend((len(at)+64)*(1+p.names())) {
			return
		}
		known[at] = true
		found = append(found, p)
		if target, ok := t.reference(p); ok {
			visit(target)
		}
		for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
			for i := range length(p.node[keyword]) {
				visit(p.below(keyword, strconv.Itoa(i)))
			}
		}
		for _, keyword := range []string{"then", "else"} {
			if _, ok := p.node[keyword]; ok {
				visit(p.below(keyword))
			}
		}
		dependent, _ := p.node["dependentSchemas"].(map[string]any)
		for _, name := range sortedKeys(dependent) {
			visit(p.below("dependentSchemas", name))
		}
	}
	for _, at := range ats {
		visit(at)
	}
	return found
}

// names returns how many keys a schema names, so that others can be unknown (X28).
func (p place) names() int {
	properties, _ := p.node["properties"].(map[string]any)
	patterns, _ := p.node["patternProperties"].(map[string]any)
	return len(properties) + len(patterns)
}

func (p place) declares() bool { return p.names() > 0 }

// childrenOf returns the subschemas for the parts of one value, which all the given places describe: the places of
// each part, by the keyword and name that lead to them: "/properties/a", "/patternProperties/^x", "/items",
// "/items/0", "/additionalProperties".
func childrenOf(places []place) map[string][]string {
	all := map[string][]string{}
	for _, p := range places {
		add := func(elements ...string) {
			all[JSONPointer(elements...)] = append(all[JSONPointer(elements...)], p.below(elements...))
		}
		for _, keyword := range []string{"properties", "patternProperties"} {
			named, _ := p.node[keyword].(map[string]any)
			for name := range named {
				add(keyword, name)
			}
		}
		for _, keyword := range []string{"items", "additionalProperties"} {
			if isMapOf(p.node[keyword]) {
				add(keyword)
			}
		}
		for i := range length(p.node["items"]) {
			add("items", strconv.Itoa(i))
		}
	}
	return all
}

// shape returns a reference to a schema that has nothing but keys: those of all the given places,
// and below them those of the children in only. A nil only descends everywhere. Equal sets of
// places share one definition. A schema for one position of a list is left out: the shape allows everything there.
func (t *translator) shape(places []place, only map[string]bool) any {
	var ats []string
	for _, p := range places {
		ats = append(ats, p.at)
	}
	slices.Sort(ats)
	madeFrom := "shape of " + strings.Join(ats, " ") + " for " + strings.Join(sortedKeys(only), " ")
	return map[string]any{"$ref": t.define(ats[0], madeFrom, func() any {
		out := map[string]any{}
		named := map[string]map[string]any{"properties": {}, "patternProperties": {}}
		children := childrenOf(places)
		for _, name := range sortedKeys(children) {
			child := any(map[string]any{})
			if only == nil || only[name] {
				if below := t.together(children[name]...); len(below) > 0 {
					child = t.shape(below, nil)
				}
			}
			if path, _ := splitPointer(name); len(path) == 1 {
				out[path[0]] = child
			} else if path[0] != "items" {
				named[path[0]][path[1]] = child
				out[path[0]] = named[path[0]]
			}
		}
		explicit := func(p place) bool { _, ok := p.node["additionalProperties"]; return ok }
		if !slices.ContainsFunc(places, explicit) && slices.ContainsFunc(places, place.declares) {
			out["additionalProperties"] = nothing()
		}
		return out
	})}
}
