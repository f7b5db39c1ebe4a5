package values

import (
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// annotations find what a schema says about values beside what the library checks: their defaults (D7, D34), which keys
// they have (D31), and that they are secrets (D41). The compiled schema has all of it. They are immutable and shared.
type annotations struct {
	// always: only what applies in any case counts: properties, items, allOf and $ref, not the alternatives of anyOf
	// and oneOf, because which of them applies depends on the value to be completed.
	always bool
	leads  map[*jsonschema.Schema]bool // whether the schema, or one below it, is annotated
}

// annotationsOf looks through a compiled schema; nil for one without annotations.
func annotationsOf(root *jsonschema.Schema, always bool, has func(*jsonschema.Schema) bool) *annotations {
	a := &annotations{always, map[*jsonschema.Schema]bool{}}
	above, known := map[*jsonschema.Schema][]*jsonschema.Schema{}, map[*jsonschema.Schema]bool{}
	var found []*jsonschema.Schema
	var visit func(s *jsonschema.Schema)
	visit = func(s *jsonschema.Schema) {
		known[s] = true
		if has(s) {
			found = append(found, s)
		}
		for _, below := range append(a.same(s), partsOf(s)...) {
			above[below] = append(above[below], s)
			if !known[below] {
				visit(below)
			}
		}
	}
	visit(root)
	for len(found) > 0 {
		last := found[len(found)-1]
		found = found[:len(found)-1]
		if !a.leads[last] {
			a.leads[last], found = true, append(found, above[last]...)
		}
	}
	if !a.leads[root] {
		return nil
	}
	return a
}

// same returns the schemas that apply to the same value as one, as part of it. not and if are left out: they do not
// describe the value, they only test it.
func (a *annotations) same(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat([]*jsonschema.Schema{s.Ref}, s.AllOf)
	switch {
	case !a.always:
		all = slices.Concat(all, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Then, s.Else}, slices.Collect(maps.Values(s.DependentSchemas)))
	case s.If != nil && slices.Equal(s.If.Types, []string{"null"}): // see allowNull
		all = append(all, s.Else)
	}
	return slices.DeleteFunc(all, func(one *jsonschema.Schema) bool { return one == nil })
}

// partsOf returns the schemas for parts of the value.
func partsOf(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat(slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.PatternProperties)))
	for _, one := range []any{s.AdditionalProperties, s.Items} {
		switch one := one.(type) {
		case *jsonschema.Schema:
			all = append(all, one)
		case []*jsonschema.Schema:
			all = append(all, one...)
		}
	}
	return all
}

// together returns schemas and all others that apply to the same value, those that lead to an annotation.
func (a *annotations) together(schemas ...*jsonschema.Schema) []*jsonschema.Schema {
	return a.collect(nil, schemas)
}

func (a *annotations) collect(found, schemas []*jsonschema.Schema) []*jsonschema.Schema {
	for _, s := range schemas {
		if a.leads[s] && !slices.Contains(found, s) {
			found = a.collect(append(found, s), a.same(s))
		}
	}
	return found
}

// key returns the schemas for the value of a key.
func (a *annotations) key(schemas []*jsonschema.Schema, key string) (found []*jsonschema.Schema) {
	for _, s := range schemas {
		found = append(found, schemasForKey(s, key)...)
	}
	return a.together(found...)
}

// schemasForKey returns those of one schema, by the rule of JSON Schema: additionalProperties count only for keys that
// nothing else names.
func schemasForKey(s *jsonschema.Schema, key string) (found []*jsonschema.Schema) {
	for pattern, below := range s.PatternProperties {
		if pattern.MatchString(key) {
			found = append(found, below)
		}
	}
	slices.SortFunc(found, func(a, b *jsonschema.Schema) int { return strings.Compare(a.Location, b.Location) })
	if below := s.Properties[key]; below != nil {
		found = slices.Insert(found, 0, below)
	}
	if additional, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && len(found) == 0 {
		found = append(found, additional)
	}
	return found
}

// items returns the schemas for the elements of a list. What is said of single positions, which OpenAPI does not have, counts
// for all elements, but for defaults.
func (a *annotations) items(schemas []*jsonschema.Schema) (found []*jsonschema.Schema) {
	for _, s := range schemas {
		switch items := s.Items.(type) {
		case *jsonschema.Schema:
			found = append(found, items)
		case []*jsonschema.Schema:
			if !a.always {
				found = append(found, items...)
			}
		}
	}
	return a.together(found...)
}
