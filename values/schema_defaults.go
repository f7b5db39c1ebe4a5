package values

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

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
