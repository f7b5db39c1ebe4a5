package values

import (
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// applied are the schemas that speak about one value, of those that lead to an annotation: what a schema says beside
// what the library checks. There are three: defaults (D7, D34), which keys objects have (D31), and what is secret
// (D41). The compiled schema has all of them. They are immutable and shared; the zero value says nothing.
type applied struct {
	in      *annotations
	schemas []*jsonschema.Schema
}

// annotations are all schemas with one kind of annotation.
type annotations struct {
	// always: only what applies in any case counts: properties, items, allOf and $ref, not the alternatives of anyOf
	// and oneOf, because which of them applies depends on the value to be completed.
	always bool
	leads  map[*jsonschema.Schema]bool // whether the schema, or one below it, is annotated
}

// annotated looks through compiled schemas, and returns what speaks about the whole section.
func annotated(always bool, has func(*jsonschema.Schema) bool, roots ...*jsonschema.Schema) applied {
	a := &annotations{always, map[*jsonschema.Schema]bool{}}
	below := map[*jsonschema.Schema][]*jsonschema.Schema{}
	var all []*jsonschema.Schema // those below a schema before it, but for references to itself
	var visit func(s *jsonschema.Schema)
	visit = func(s *jsonschema.Schema) {
		if _, known := below[s]; known {
			return
		}
		below[s] = append(a.same(s), partsOf(s)...)
		for _, one := range below[s] {
			visit(one)
		}
		all = append(all, s)
	}
	for _, root := range roots {
		visit(root)
	}
	leads := func(s *jsonschema.Schema) bool { return a.leads[s] }
	for found := true; found; {
		found = false
		for _, s := range all {
			if !leads(s) && (has(s) || slices.ContainsFunc(below[s], leads)) {
				a.leads[s], found = true, true
			}
		}
	}
	return applied{a, a.collect(nil, roots)}
}

// same returns the schemas that apply to the same value as one, as part of it. not and if are left out: they do not
// describe the value, they only test it.
func (a *annotations) same(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat([]*jsonschema.Schema{s.Ref}, s.AllOf)
	switch {
	case !a.always:
		all = slices.Concat(all, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Then, s.Else})
		all = slices.AppendSeq(all, maps.Values(s.DependentSchemas))
	case s.If != nil && slices.Equal(s.If.Types, []string{"null"}): // see allowNull
		all = append(all, s.Else)
	}
	return slices.DeleteFunc(all, func(one *jsonschema.Schema) bool { return one == nil })
}

// partsOf returns the schemas for parts of the value.
func partsOf(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.AppendSeq(slices.Collect(maps.Values(s.Properties)), maps.Values(s.PatternProperties))
	for _, rest := range []any{s.AdditionalProperties, s.Items} {
		if one, ok := rest.(*jsonschema.Schema); ok {
			all = append(all, one)
		}
	}
	return all
}

// collect adds schemas and all others that apply to the same value.
func (a *annotations) collect(found, schemas []*jsonschema.Schema) []*jsonschema.Schema {
	for _, s := range schemas {
		if a.leads[s] && !slices.Contains(found, s) {
			found = a.collect(append(found, s), a.same(s))
		}
	}
	return found
}

// key returns what speaks about the value of a key.
func (a applied) key(key string) applied {
	var found []*jsonschema.Schema
	for _, s := range a.schemas {
		found = a.in.collect(found, schemasForKey(s, key))
	}
	return applied{a.in, found}
}

// element returns what speaks about the elements of a list.
func (a applied) element() applied {
	var found []*jsonschema.Schema
	for _, s := range a.schemas {
		if items, ok := s.Items.(*jsonschema.Schema); ok {
			found = a.in.collect(found, []*jsonschema.Schema{items})
		}
	}
	return applied{a.in, found}
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

// fill adds the defaults of a schema to a section. What exists, null included, stays; the tree is not changed. A
// section that no layer has is the default of the whole, or an empty map if there are defaults of keys to fill in. An
// error means that the defaults would make the section too large (D39).
func (s *schema) fill(tree any) (any, error) {
	f, from := filler{left: maxNodes, size: maxSize}, tree
	if from == nil {
		from = defaultOf(s.defaults)
	}
	empty := from == nil
	if empty {
		from = map[string]any{}
	}
	filled := f.fill(s.defaults, from, 0)
	if empty && isEmpty(filled) {
		filled = nil
	}
	return filled, f.err
}

// filler is one walk through a tree that fills in defaults. After an error it adds nothing more, and its result is
// discarded.
type filler struct {
	left, size int // nodes and bytes that may still be added
	err        error
}

// defaultOf is the default of a value that several schemas describe: the first one in the order of their places. A
// null is none.
func defaultOf(a applied) any {
	for _, s := range a.schemas {
		if s.Default != nil {
			return s.Default
		}
	}
	return nil
}

// fill fills the existing values first and then adds the missing ones.
func (f *filler) fill(a applied, tree any, level int) any {
	if len(a.schemas) == 0 || f.err != nil || !isContainer(tree) {
		return tree
	}
	if level > maxDepth {
		f.err = errTooFilled
	}
	if list, ok := tree.([]any); ok {
		elements, filled := a.element(), slices.Clone(list)
		for i, element := range list {
			filled[i] = f.fill(elements, element, level+1)
		}
		return filled
	}
	m, _ := tree.(map[string]any)
	filled := maps.Clone(m)
	for key, value := range m {
		filled[key] = f.fill(a.key(key), value, level+1)
	}
	for _, s := range a.schemas {
		for key := range s.Properties {
			if _, present := filled[key]; present {
				continue
			}
			if value := defaultOf(a.key(key)); value != nil {
				size, nodes, _ := measure(value)
				if f.left, f.size = f.left-nodes-1, f.size-size-len(key); f.left < 0 || f.size < 0 {
					f.err = errTooFilled
				}
				filled[key] = f.fill(a.key(key), value, level+1)
			}
		}
	}
	return filled
}

// treeDefault makes a tree of a default, which the library keeps as it has read it, and reports whether there is one.
func treeDefault(s *jsonschema.Schema) bool {
	if s.Default != nil {
		s.Default, _ = rebuilt(s.Default, numbers)
	}
	return s.Default != nil
}
