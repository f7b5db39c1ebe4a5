package values

import (
	"fmt"
	"maps"
	"slices"
)

// compileDefaults collects the defaults of a schema, ready to be filled into a tree (D7, D34); nil when it has none.
// Only keywords that always apply count: properties, items, allOf and $ref, not the alternatives of anyOf and oneOf,
// because which of them applies depends on the value to be completed. Of several the first one in the order of their
// places wins. A null is no default. written are the defaults by their places, without those below them.
func compileDefaults(root map[string]any) (top *annotations, written map[string]any, err error) {
	written = map[string]any{}
	all, err := compileAnnotations(root, true, func(a *annotations, p place) error {
		if value := p.node["default"]; value != nil {
			written[p.at] = value
			if !a.has {
				a.has, a.value = true, value
			}
		}
		return nil
	})
	if err != nil || !all[0].leads {
		return nil, nil, err
	}
	for _, a := range slices.Backward(all) { // what a default uses is complete before it, if that is possible
		if err := a.finish(); err != nil {
			return nil, nil, err
		}
	}
	return all[0], written, nil
}

// finish fills the defaults below a default value into it.
func (a *annotations) finish() error {
	if !a.has {
		return nil
	}
	size, depth := measure(a.value)
	f := filler{left: maxSize - size}
	a.value, _ = f.fill(a, a.value)
	a.complete = true
	_, filled := measure(a.value)
	switch {
	case f.tooDeep || max(depth, filled) > maxDepth:
		return fmt.Errorf("%s: the default, with the defaults inside of it, expands without end, or is nested more than %d deep",
			orRoot(a.at), maxDepth)
	case f.left < 0:
		return fmt.Errorf("%s: the default with all defaults inside is larger than %d MiB", orRoot(a.at), maxSize>>20)
	}
	return nil
}

// orDefault returns the default of the whole section if no layer has it. A section always exists:
// without a default of its own it is an empty map if there are defaults of keys to fill into it.
func (a *annotations) orDefault(tree any) any {
	switch {
	case tree != nil || a == nil:
		return tree
	case a.has:
		return a.value
	case slices.ContainsFunc(slices.Collect(maps.Values(a.properties)), func(p *annotations) bool { return p.has }):
		return map[string]any{}
	}
	return tree
}

// fill adds missing values to a tree; what exists, null included, stays. The tree is not changed;
// if nothing is missing it is returned as it is. An error means that the defaults would add more
// than 16 MiB, as for a long list with many defaults for each element (D39). Without defaults it adds
// nothing.
func (a *annotations) fill(tree any) (any, error) {
	if a == nil {
		return tree, nil
	}
	f := filler{left: maxFilled}
	filled, _ := f.fill(a, tree)
	if f.left < 0 {
		return tree, errTooFilled
	}
	return filled, nil
}

// filler is one walk through a tree that fills in defaults. When left is used up, or the walk is too deep, it adds
// nothing more, and its result is discarded.
type filler struct {
	left    int // bytes that may still be added, as measure counts them
	level   int // lists and maps around the place of the walk
	tooDeep bool
}

// fill returns the filled tree, and whether anything was missing.
func (f *filler) fill(a *annotations, tree any) (any, bool) {
	if !a.leads || f.left < 0 || f.tooDeep || !isContainer(tree) {
		return tree, false
	}
	f.level++
	defer func() { f.level-- }()
	if f.tooDeep = f.level > maxDepth+1; f.tooDeep { // one for the section itself
		return tree, false
	}
	if list, ok := tree.([]any); ok {
		return f.fillList(a, list)
	}
	m, _ := tree.(map[string]any)
	return f.fillMap(a, m)
}

// fillMap fills the existing values first and then adds the missing ones.
func (f *filler) fillMap(a *annotations, m map[string]any) (any, bool) {
	var filled map[string]any // a copy, made at the first change
	set := func(key string, value any) {
		if filled == nil {
			filled = maps.Clone(m)
		}
		filled[key] = value
	}
	for key, value := range m {
		for _, below := range a.forKey(key) {
			if changed, some := f.fill(below, value); some {
				value = changed
				set(key, value)
			}
		}
	}
	for key, below := range a.properties {
		if _, present := m[key]; present || !below.has {
			continue
		}
		size, _ := measure(below.value)
		if f.left -= overhead + len(key) + size; f.left < 0 || f.tooDeep {
			break
		}
		value := below.value
		if !below.complete {
			value, _ = f.fill(below, value)
		}
		set(key, value)
	}
	if filled == nil {
		return m, false
	}
	return filled, true
}

func (f *filler) fillList(a *annotations, list []any) (any, bool) {
	var filled []any // a copy, made at the first change
	for i, element := range list {
		for _, below := range a.items {
			changed, some := f.fill(below, element)
			if !some {
				continue
			}
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
