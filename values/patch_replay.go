package values

import (
	"maps"
	"reflect"
	"slices"
)

// replayAll executes saved operations over layers that may have changed since (D22).
func replayAll(key string, section any, saved Patch) any {
	if len(saved) == 0 {
		return section
	}
	var (
		tree any = map[string]any{key: section}
		r        = newReplayer()
	)
	for _, operation := range saved {
		tree = r.replay(tree, operation)
	}
	section, _ = lookup(tree, pointer{key})
	return section
}

// replayer executes adds and removes leniently: they always succeed. A value to remove may be
// missing; missing parents are created; an index beyond the end appends; an operation below a
// scalar, or below an element of a list that no longer exists, has no effect, because the value that the hook
// wanted to change does not exist any more.
//
// Trees of callers are never changed; containers on the path to a change are copied. The
// replayer records the maps that it has copied itself and changes these in place, so a thousand
// operations on one map copy it once. A caller that keeps a tree between two operations must therefore
// continue with a new replayer.
type replayer struct {
	// own holds these maps by their addresses. Holding them keeps an address from being reused for
	// another map, which the replayer would then change in place.
	own map[uintptr]map[string]any
}

func newReplayer() replayer { return replayer{own: map[uintptr]map[string]any{}} }

func (r replayer) replay(tree any, operation Operation) any {
	path := mustPointer(operation.Path)
	if len(path) == 0 {
		return tree
	}
	if operation.Op == "remove" {
		return r.without(tree, path)
	}
	return r.with(tree, path, operation.Value)
}

// writable returns the map itself if the replayer has made it, otherwise a copy.
func (r replayer) writable(m map[string]any) map[string]any {
	if r.own[reflect.ValueOf(m).Pointer()] != nil {
		return m
	}
	m = maps.Clone(m)
	r.own[reflect.ValueOf(m).Pointer()] = m
	return m
}

// with returns the tree with the value added at the path.
func (r replayer) with(tree any, path pointer, value any) any {
	if len(path) == 0 {
		return value
	}
	switch container := tree.(type) {
	case map[string]any:
		changed := r.writable(container)
		changed[path[0]] = r.with(container[path[0]], path[1:], value)
		return changed
	case []any:
		return r.withIndex(container, path, value)
	case nil:
		return created(path, value)
	}
	return tree
}

// withIndex inserts into a list if the path ends there, and descends otherwise. Lists are always
// copied: an insertion moves their elements anyway.
func (r replayer) withIndex(list []any, path pointer, value any) any {
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
	changed[index] = r.with(list[index], path[1:], value)
	return changed
}

// created makes the missing parents of a value. "-" and "0" make lists, because they are the first
// place of one, all other elements make maps.
func created(path pointer, value any) any {
	if len(path) == 0 {
		return value
	}
	if path[0] == appends || path[0] == "0" {
		return []any{created(path[1:], value)}
	}
	return map[string]any{path[0]: created(path[1:], value)}
}

// without returns the tree with the value at the path removed, if there is one. It looks first, so
// that nothing is copied for a value that does not exist.
func (r replayer) without(tree any, path pointer) any {
	if _, ok := lookup(tree, path); !ok {
		return tree
	}
	switch container := tree.(type) {
	case map[string]any:
		changed := r.writable(container)
		if len(path) == 1 {
			delete(changed, path[0])
		} else {
			changed[path[0]] = r.without(container[path[0]], path[1:])
		}
		return changed
	case []any:
		index, _ := listIndex(path[0])
		changed := slices.Clone(container)
		if len(path) == 1 {
			return slices.Delete(changed, index, index+1)
		}
		changed[index] = r.without(container[index], path[1:])
		return changed
	}
	return tree
}
