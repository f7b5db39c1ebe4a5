package values

import (
	"maps"
	"slices"
)

// replayAll executes saved operations over layers that may have changed since (D22).
func replayAll(key string, section any, saved Patch) any {
	if len(saved) == 0 {
		return section
	}
	var tree any = map[string]any{key: section}
	for _, operation := range saved {
		tree = replay(tree, operation)
	}
	section, _ = lookup(tree, pointer{key})
	return section
}

// replay executes one add or remove leniently: it always succeeds. What is to be removed may be missing; missing parents are
// created; an index beyond the end appends; an operation below a scalar, or below an element of a list that is no longer
// there, has no effect, since the hook's wish has lost its object. The old tree is not changed; only the containers on the way
// to the place of the change are copied.
func replay(tree any, operation Operation) any {
	path := mustPointer(operation.Path)
	if len(path) == 0 {
		return tree
	}
	if operation.Op == "remove" {
		return without(tree, path)
	}
	return with(tree, path, operation.Value)
}

// with gives the tree with the value added at the path.
func with(tree any, path pointer, value any) any {
	if len(path) == 0 {
		return value
	}
	switch container := tree.(type) {
	case map[string]any:
		return withKey(container, path, value)
	case []any:
		return withIndex(container, path, value)
	case nil:
		return created(path, value)
	}
	return tree
}

func withKey(m map[string]any, path pointer, value any) any {
	changed := maps.Clone(m)
	changed[path[0]] = with(m[path[0]], path[1:], value)
	return changed
}

func withIndex(list []any, path pointer, value any) any {
	index, ok := listIndex(path[0])
	if len(path) == 1 && (ok || path[0] == appends) {
		if !ok || index > len(list) {
			index = len(list)
		}
		return slices.Insert(slices.Clone(list), index, value)
	}
	if !ok || index >= len(list) {
		return list
	}
	changed := slices.Clone(list)
	changed[index] = with(list[index], path[1:], value)
	return changed
}

// created makes the missing parents of a value. An element that only the first place of a list can have makes a list, all
// others make maps.
func created(path pointer, value any) any {
	if len(path) == 0 {
		return value
	}
	if path[0] == appends || path[0] == "0" {
		return []any{created(path[1:], value)}
	}
	return map[string]any{path[0]: created(path[1:], value)}
}

// without gives the tree with the value at the path removed, when there is one.
func without(tree any, path pointer) any {
	if _, ok := lookup(tree, path); !ok {
		return tree
	}
	switch container := tree.(type) {
	case map[string]any:
		changed := maps.Clone(container)
		if len(path) == 1 {
			delete(changed, path[0])
		} else {
			changed[path[0]] = without(container[path[0]], path[1:])
		}
		return changed
	case []any:
		index, _ := listIndex(path[0])
		changed := slices.Clone(container)
		if len(path) == 1 {
			return slices.Delete(changed, index, index+1)
		}
		changed[index] = without(container[index], path[1:])
		return changed
	}
	return tree
}
