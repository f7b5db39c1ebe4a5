package values

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// apply executes a patch on a section as RFC 6902 requires (D21): a missing path, a missing parent, an index out of
// range and a failed test are errors. Hooks of a module change nothing else than its section: neither global values (X15)
// nor flags nor other modules (D20). A section that is removed is empty. steps are the adds and removes that it took.
func (p Patch) apply(key string, section any) (patched any, steps Patch, err error) {
	tree, copied, own := any(map[string]any{key: section}), 0, copies{}
	for i, o := range p {
		var done Patch
		if !o.within(key) {
			err = fmt.Errorf("hooks of this module may change only /%s", key)
		} else {
			tree, done, err = o.execute(tree, own)
		}
		if o.Op == "copy" && err == nil { // copies of copies double at each operation
			size, nodes, _ := measure(done[0].Value)
			if copied += size + nodes; copied > maxSize {
				err = errTooLarge
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("patch operation %d, %s: %w", i+1, o, err)
		}
		steps = append(steps, done...)
	}
	patched, _ = lookup(tree, pointer{key})
	if err := errors.Join(checkSection(key, patched), bounded(patched)); err != nil {
		return nil, nil, fmt.Errorf("section %s after the patch: %w", key, err)
	}
	return patched, steps, nil
}

// execute executes one operation on a tree of sections. Values of move and copy become those of the steps, because
// what they are taken from may not exist when the steps are replayed over other layers.
func (o Operation) execute(tree any, own copies) (after any, steps Patch, err error) {
	path, from := mustPointer(o.Path), mustPointer(o.From)
	remove, add := Operation{Op: "remove", Path: o.Path}, Operation{Op: "add", Path: o.Path, Value: o.Value, HasValue: true}
	if o.From != "" {
		clear(own) // what is copied is in two places
		if err := absence(tree, from, false); err != nil {
			return nil, nil, err
		}
		add.Value, _ = lookup(tree, from)
	}
	before := tree
	if o.Op == "move" {
		if from.contains(path) && len(path) > len(from) {
			return nil, nil, errors.New("a value cannot be moved into itself")
		}
		remove.Path = o.From
		before = remove.over(tree, from, nil)
	}
	if err := absence(before, path, o.Op == "add" || o.From != ""); err != nil {
		return nil, nil, err
	}
	if removed := mustPointer(remove.Path); len(removed) == 1 {
		section, _ := lookup(tree, removed)
		remove = Operation{Op: "add", Path: remove.Path, Value: emptyLike(section), HasValue: true}
	}
	switch o.Op {
	case "test":
		if value, _ := lookup(tree, path); !reflect.DeepEqual(value, o.Value) {
			return nil, nil, errors.New("the test failed: the value is different")
		}
	case "add", "copy":
		steps = Patch{add}
	case "remove":
		steps = Patch{remove}
	default: // replace and move; in a list an add inserts
		steps = Patch{remove, add}
	}
	for _, step := range steps {
		tree = step.over(tree, mustPointer(step.Path), own)
	}
	return tree, steps, nil
}

// absence names the first element of a path that leads nowhere. adds: the last one need not be there.
func absence(tree any, path pointer, adds bool) error {
	for i, element := range path {
		child, ok := lookup(tree, path[i:i+1])
		switch container := tree.(type) {
		case map[string]any:
			if !ok && !(adds && i == len(path)-1) {
				return fmt.Errorf("there is no %s", path[:i+1])
			}
		case []any:
			index, isIndex := listIndex(element)
			after := adds && i == len(path)-1 && (element == appends || isIndex && index == len(container))
			if !ok && !after {
				return fmt.Errorf("%s is a list of %d, %q is not an index of it", path[:i], len(container), element)
			}
		default:
			return fmt.Errorf("%s is %s, which has no elements or keys", path[:i], describe(tree))
		}
		tree = child
	}
	return nil
}

// foldLimit is the number of saved operations through lists that one container may collect. Appends
// cannot be dropped (D23), so a hook that appends at every run would make the list of patches
// grow without end; beyond the limit the present value of the container is saved instead.
// From then on a change of the layers below that container has no effect on it.
const foldLimit = 256

// maxSaved bounds all saved operations of a section in the same way.
const maxSaved = 10_000

// save adds the steps of a patch to the saved ones (D22). A step drops earlier ones at or below its path, unless that
// leads through a list. merged are the values with all of them.
func (p Patch) save(steps Patch, by Origin, key string, merged any) Patch {
	all, later, fold, counts := slices.Concat(p, steps), map[string]bool{}, map[string]bool{}, map[string]int{}
	for i := len(p); i < len(all); i++ {
		all[i].by = by
	}
	slices.Reverse(all)
	all = slices.DeleteFunc(all, func(o Operation) bool {
		for path := o.Path; path != ""; path = path[:strings.LastIndexByte(path, '/')] {
			if later[path] {
				return true
			}
		}
		later[o.Path] = aboveLists(o.Path) == o.Path
		return false
	})
	slices.Reverse(all)
	for _, o := range all {
		above := aboveLists(o.Path)
		if counts[above]++; above != o.Path && counts[above] > foldLimit {
			fold[above] = true
		}
	}
	if len(all) > maxSaved {
		fold = map[string]bool{JSONPointer(key): true}
	}
	for _, path := range sortedKeys(fold) {
		all = append(all.without(path), present(path, key, merged, by))
	}
	return all
}

// present returns the operation that makes a value what it is.
func present(path, key string, merged any, by Origin) Operation {
	value, there := lookup(map[string]any{key: merged}, mustPointer(path))
	if !there {
		return Operation{Op: "remove", Path: path, by: by}
	}
	return Operation{Op: "add", Path: path, Value: value, HasValue: true, by: by}
}

// without drops the operations at or below a path. Paths are compared as texts, which are canonical; a common prefix
// is not enough: /m/ab is not below /m/a.
func (p Patch) without(path string) Patch {
	return slices.DeleteFunc(p, func(o Operation) bool {
		below, found := strings.CutPrefix(o.Path, path)
		return found && (below == "" || below[0] == '/')
	})
}

// replay executes saved operations over layers that may have changed since (D22).
func (p Patch) replay(section any) any {
	own := copies{}
	for _, o := range p {
		section = o.over(section, mustPointer(o.Path)[1:], own)
	}
	return section
}

// over executes an add or a remove leniently: it always succeeds. A value to remove may be missing; missing maps above
// a value are made; an index beyond the end appends. An operation below a scalar, or in a list that no longer
// exists, has no effect, because what the hook wanted to change does not exist any more. Of the tree, only maps of own
// are changed.
func (o Operation) over(tree any, path pointer, own copies) any {
	switch {
	case len(path) == 0 && o.Op == "remove":
		return emptyLike(tree)
	case len(path) == 0:
		return o.Value
	}
	switch container := tree.(type) {
	case map[string]any:
		return o.overMap(container, path, own)
	case []any:
		return o.overList(container, path, own)
	}
	return tree
}

// copies are maps that were made for a patch, by address. It may change them: a patch of thousands of operations would
// copy a map at each.
type copies map[uintptr]map[string]any

func (c copies) of(m map[string]any) map[string]any {
	if _, own := c[reflect.ValueOf(m).Pointer()]; own {
		return m
	}
	m = maps.Clone(m)
	if c != nil {
		c[reflect.ValueOf(m).Pointer()] = m
	}
	return m
}

func (o Operation) overMap(m map[string]any, path pointer, own copies) any {
	child := m[path[0]]
	below := path[1:].String()
	if child == nil && (o.Op == "remove" && len(path) > 1 || aboveLists(below) != below) {
		return m
	} else if child == nil && len(path) > 1 {
		child = map[string]any{}
	}
	changed := own.of(m)
	if len(path) == 1 && o.Op == "remove" {
		delete(changed, path[0])
	} else {
		changed[path[0]] = o.over(child, path[1:], own)
	}
	return changed
}

func (o Operation) overList(list []any, path pointer, own copies) any {
	i, ok := listIndex(path[0])
	adds := o.Op == "add" && len(path) == 1
	if adds && (path[0] == appends || i > len(list)) {
		i, ok = len(list), true
	}
	changed := slices.Clone(list)
	switch {
	case adds && ok:
		return slices.Insert(changed, i, o.Value)
	case !ok || i >= len(list):
		return list
	case len(path) == 1:
		return slices.Delete(changed, i, i+1)
	}
	changed[i] = o.over(list[i], path[1:], own)
	return changed
}
