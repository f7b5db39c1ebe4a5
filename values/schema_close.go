package values

import (
	"maps"
	"slices"
	"strings"
)

// close makes a schema refuse the keys it does not know (D31, X28), unless it says itself what it thinks of them, or names no
// keys at all.
//
// A schema without branches gets additionalProperties. With branches (allOf, oneOf, $ref and so on) no single place knows all
// keys; three things then work together:
//
//   - unevaluatedProperties counts the keys of those branches that fit the value;
//   - the shape, returned to be checked together with the schema, knows the keys of all branches, so that a misspelt key is still
//     found when a branch does not fit for another reason;
//   - children that several places describe are left open there, marked in the mode, and closed by the shape with what all of
//     these places say.
//
// The shape must not be part of the schema: the keys it knows would count as evaluated.
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

// childrenOf gathers the children of all places that speak about one value.
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

// shape gives a reference to a schema that knows nothing but keys: those of all the given places, and below them those of the
// children in only. Without only it goes down everywhere.
func (t *translator) shape(ats []string, only map[string]bool) any {
	slices.Sort(ats)
	madeFrom := "shape of " + strings.Join(ats, " ") + " for " + strings.Join(sortedKeys(only), " ")
	return map[string]any{"$ref": t.define(ats[0], madeFrom, func() any { return t.makeShape(ats, only) })}
}

// makeShape is called once for each set of places, which is why recursive schemas come to an end.
func (t *translator) makeShape(ats []string, only map[string]bool) any {
	var places []place
	for _, at := range ats {
		found, err := t.document.collect(at, false)
		if err != nil {
			t.fail(err)
			return map[string]any{}
		}
		places = append(places, found...)
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

// put sets properties/name or items of a schema. Lists of items are left out: only few know the position, all know the keys.
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
