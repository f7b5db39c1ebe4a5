package values

import (
	"maps"
	"slices"
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
	places, err := t.document.collect(p.at, false)
	if err != nil {
		t.fail(err)
		return nil
	}
	if len(places) == 1 {
		if _, explicit := p.node["additionalProperties"]; !explicit && p.declares() {
			out["additionalProperties"] = nothing()
		}
		return nil
	}
	shared := map[string]bool{}
	for name, ats := range childrenOf(places) {
		if len(ats) > 1 {
			shared[name] = true
		}
	}
	m.shared = shared
	_, explicit := p.node["additionalProperties"]
	closes := !explicit && slices.ContainsFunc(places, place.declares)
	if closes {
		out["unevaluatedProperties"] = nothing()
	}
	if !closes && len(shared) == 0 {
		return nil
	}
	return t.shape(placeNames(places), shared)
}

// childrenOf returns the subschemas for the parts of one value, which all the given places
// describe: the places of each part, by the keyword and name as place.children has them.
func childrenOf(places []place) map[string][]string {
	all := map[string][]string{}
	for _, p := range places {
		for name, at := range p.children() {
			all[name] = append(all[name], at)
		}
	}
	return all
}

func placeNames(places []place) []string {
	names := make([]string, 0, len(places))
	for _, p := range places {
		names = append(names, p.at)
	}
	return names
}

// shape returns a reference to a schema that has nothing but keys: those of all the given places,
// and below them those of the children in only. A nil only descends everywhere. Equal sets of
// places share one definition.
func (t *translator) shape(ats []string, only map[string]bool) any {
	slices.Sort(ats)
	madeFrom := "shape of " + strings.Join(ats, " ") + " for " + strings.Join(sortedKeys(only), " ")
	return map[string]any{"$ref": t.define(ats[0], madeFrom, func() any { return t.makeShape(ats, only) })}
}

// makeShape is called once for each set of places: define registers the name before it calls, so
// recursive schemas end.
func (t *translator) makeShape(ats []string, only map[string]bool) any {
	places, err := t.document.collectAll(ats, false)
	if err != nil {
		t.fail(err)
		return map[string]any{}
	}
	out := map[string]any{}
	children := childrenOf(places)
	for _, name := range sortedKeys(children) {
		child := any(map[string]any{})
		if only == nil || only[name] {
			child = t.shape(slices.Compact(slices.Sorted(slices.Values(children[name]))), nil)
		}
		path, _ := splitPointer(name)
		put(out, path, child)
	}
	_, hasAdditional := out["additionalProperties"]
	explicit := slices.ContainsFunc(places, func(p place) bool { _, ok := p.node["additionalProperties"]; return ok })
	if !hasAdditional && !explicit && slices.ContainsFunc(places, place.declares) {
		out["additionalProperties"] = nothing()
	}
	return out
}

// put sets properties/name or items of a schema. A schema for one position of a list is left out,
// so the shape allows everything there.
func put(out map[string]any, path pointer, child any) {
	switch {
	case len(path) == 1:
		out[path[0]] = child
	case path[0] != "items":
		named, _ := out[path[0]].(map[string]any)
		named = maps.Clone(named)
		if named == nil {
			named = map[string]any{}
		}
		named[path[1]] = child
		out[path[0]] = named
	}
}
