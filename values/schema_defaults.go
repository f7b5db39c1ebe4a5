package values

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

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
