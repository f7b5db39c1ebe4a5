package values

import (
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// annotations find what a schema says about values without allowing or refusing any: their defaults (D7, D34), or that
// they are secrets (D41). The compiled schema has both. They are immutable and shared.
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

// same returns the schemas that apply to the same value as one, as part of it.
func (a *annotations) same(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat([]*jsonschema.Schema{s.Ref}, s.AllOf)
	switch {
	case !a.always:
		all = slices.Concat(all, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Then, s.Else}, slices.Collect(maps.Values(s.DependentSchemas)))
	case s.If != nil && slices.Equal(s.If.Types, []string{"null"}): // see translator.branches
		all = append(all, s.Else)
	}
	return slices.DeleteFunc(all, func(one *jsonschema.Schema) bool { return one == nil })
}

// partsOf returns the schemas for parts of the value. In a list, those for single positions count as the others.
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

// together returns a schema and all others that apply to the same value, those that lead to an annotation.
func (a *annotations) together(schemas ...*jsonschema.Schema) (found []*jsonschema.Schema) {
	for _, s := range schemas {
		if a.leads[s] && !slices.Contains(found, s) {
			found = append(found, s)
			for _, one := range a.together(a.same(s)...) {
				if !slices.Contains(found, one) {
					found = append(found, one)
				}
			}
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

// items returns the schemas for the elements of a list. A default for one position only does not count.
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

// fill adds the defaults of a schema to a section. What exists, null included, stays; the tree is not changed, but
// returned as it is if nothing is missing. A section that no layer has is the default of the whole, or an empty map if
// there are defaults of keys to fill in. An error means that the defaults would make the section too large (D39).
func (s *schema) fill(tree any) (any, error) {
	if s == nil || s.defaults == nil {
		return tree, nil
	}
	f := filler{annotations: s.defaults, left: maxNodes, size: maxSize}
	top := f.together(s.compiled)
	if tree == nil {
		tree = f.valueOf(top)
	}
	if tree == nil && slices.ContainsFunc(top, func(s *jsonschema.Schema) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(s.Properties)), func(p *jsonschema.Schema) bool { return f.valueOf(f.together(p)) != nil })
	}) {
		tree = map[string]any{}
	}
	filled, _ := f.fill(top, tree, 0)
	return filled, f.err
}

// filler is one walk through a tree that fills in defaults. After an error it adds nothing more, and its result is
// discarded.
type filler struct {
	*annotations
	left, size int // nodes and bytes that may still be added
	err        error
}

// valueOf is the default of a value that several schemas describe: the first one in the order of their places. A null
// is none.
func (f *filler) valueOf(schemas []*jsonschema.Schema) any {
	for _, s := range schemas {
		if s.Default != nil {
			return s.Default
		}
	}
	return nil
}

// fill fills the existing values first and then adds the missing ones. It reports whether anything was missing.
func (f *filler) fill(schemas []*jsonschema.Schema, tree any, level int) (any, bool) {
	if len(schemas) == 0 || f.err != nil || !isContainer(tree) {
		return tree, false
	}
	if level > maxDepth {
		f.err = errTooFilled
		return tree, false
	}
	if list, ok := tree.([]any); ok {
		return f.fillList(f.items(schemas), list, level)
	}
	m, _ := tree.(map[string]any)
	var filled map[string]any // a copy, made at the first change
	set := func(key string, value any) {
		if filled == nil {
			filled = maps.Clone(m)
		}
		filled[key] = value
	}
	for key, value := range m {
		if changed, some := f.fill(f.key(schemas, key), value, level+1); some {
			set(key, changed)
		}
	}
	for _, s := range schemas {
		for key := range s.Properties {
			_, present := m[key]
			_, before := filled[key]
			if present || before || f.err != nil {
				continue
			}
			if value := f.missing(f.key(schemas, key), key, level+1); value != nil {
				set(key, value)
			}
		}
	}
	if filled == nil {
		return m, false
	}
	return filled, true
}

// missing is the default of a key that a map lacks, with the defaults inside of it; nil for none.
func (f *filler) missing(schemas []*jsonschema.Schema, key string, level int) any {
	value := f.valueOf(schemas)
	if value == nil {
		return nil
	}
	size, nodes, _ := measure(value)
	if f.left, f.size = f.left-nodes-1, f.size-size-len(key); f.left < 0 || f.size < 0 {
		f.err = errTooFilled
	}
	value, _ = f.fill(schemas, value, level)
	return value
}

func (f *filler) fillList(items []*jsonschema.Schema, list []any, level int) (any, bool) {
	var filled []any // a copy, made at the first change
	for i, element := range list {
		if changed, some := f.fill(items, element, level+1); some {
			if filled == nil {
				filled = slices.Clone(list)
			}
			filled[i] = changed
		}
	}
	if filled == nil {
		return list, false
	}
	return filled, true
}

// treeDefault makes a tree of a default, which the library keeps as it has read it, and reports whether there is one.
func treeDefault(s *jsonschema.Schema) bool {
	if s.Default != nil {
		s.Default, _ = normalise(s.Default, maxDepth)
	}
	return s.Default != nil
}
