package values

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// apply executes a patch on a section as RFC 6902 requires (D21): a missing path, a missing parent,
// an index out of range and a failed test are errors. It returns the new section and the canonical
// operations that lead to it, for later replays, and by how much it has grown, as measure counts it. A section that was
// removed is empty.
//
// The patch is in effect applied twice. canonical follows it step by step, so that a mistake is
// reported with its operation and in plain words; the library of RFC 6902 then applies the
// canonical steps, and decides.
func apply(key string, section any, patch Patch) (patched any, steps Patch, grown int, err error) {
	if steps, err = canonical(key, section, patch); err != nil {
		return nil, nil, 0, err
	}
	tree, grown, err := execute(map[string]any{key: section}, steps)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("section %s: %w", key, err)
	}
	patched, _ = lookup(tree, pointer{key})
	if err := checkSection(key, patched); err != nil {
		return nil, nil, 0, fmt.Errorf("section %s after the patch: %w", key, err)
	}
	return patched, steps, grown, nil
}

// execute applies canonical operations strictly, to the text of the part of the tree that they
// reach: a patch of a few values does not cost writing and reading a megabyte.
func execute(tree any, steps Patch) (after any, grown int, err error) {
	if len(steps) == 0 {
		return tree, 0, nil
	}
	paths := make([]pointer, 0, len(steps))
	for _, step := range steps {
		paths = append(paths, mustPointer(step.Path))
	}
	before := cut(tree, paths)
	text, err := JSON(before)
	if err != nil {
		return nil, 0, err
	}
	stepsText, err := json.Marshal(steps)
	if err != nil {
		return nil, 0, err
	}
	operations, err := jsonpatch.DecodePatch(stepsText)
	if err != nil {
		return nil, 0, fmt.Errorf("patch: %w", err)
	}
	options := jsonpatch.NewApplyOptions()
	// The library's defaults differ from the RFC: -1 would be the last element, and <, > and &
	// would be escaped.
	options.SupportNegativeIndices = false
	options.EscapeHTML = false
	if text, err = operations.ApplyWithOptions(text, options); err != nil {
		return nil, 0, fmt.Errorf("patch: %w", err)
	}
	part, err := decodeJSON(text, 1+maxDepth) // one for the key of the section
	if err != nil {
		return nil, 0, fmt.Errorf("patched values: %w", err)
	}
	was, _ := measure(before)
	is, _ := measure(part)
	return join(tree, part, paths), is - was, nil
}

// cut returns the part of a tree that operations at some paths can reach: of a map the keys on these
// paths. A list is taken as a whole, because which element a path means depends on the operations
// before it.
func cut(tree any, paths []pointer) any {
	m, ok := tree.(map[string]any)
	if !ok || slices.ContainsFunc(paths, func(p pointer) bool { return len(p) == 0 }) {
		return tree
	}
	part := map[string]any{}
	for key, below := range byKey(paths) {
		if child, ok := m[key]; ok {
			part[key] = cut(child, below)
		}
	}
	return part
}

// join puts a part back that cut has taken and a patch has changed since. The rest is shared.
func join(tree, part any, paths []pointer) any {
	m, ok := tree.(map[string]any)
	patched, still := part.(map[string]any)
	if !ok || !still || slices.ContainsFunc(paths, func(p pointer) bool { return len(p) == 0 }) {
		return part
	}
	joined := maps.Clone(m)
	for key, below := range byKey(paths) {
		if child, ok := patched[key]; ok {
			joined[key] = join(m[key], child, below)
		} else {
			delete(joined, key)
		}
	}
	return joined
}

// byKey groups paths by their first element, and cuts it off.
func byKey(paths []pointer) map[string][]pointer {
	below := map[string][]pointer{}
	for _, path := range paths {
		below[path[0]] = append(below[path[0]], path[1:])
	}
	return below
}

// canonical rewrites a patch into adds and removes only (D22, D23). What was tested, copied or
// moved may not exist when the patch is replayed over other layers, so tests are dropped and copies
// become their value. It also finds faulty operations and words the errors.
func canonical(key string, section any, patch Patch) (Patch, error) {
	var (
		saved Patch
		size  int
		tree  any = map[string]any{key: section}
		r         = newReplayer()
	)
	for i, operation := range patch {
		steps, err := operation.canonical(key, tree)
		if err == nil {
			var added int
			added, err = steps.extent()
			// Copies of copies double at each operation: a few dozen would need more memory than
			// there is.
			if size += added; size > maxSize {
				err = errTooLarge
			}
		}
		if err != nil {
			return nil, fmt.Errorf("patch operation %d, %s: %w", i+1, operation, err)
		}
		if operation.From != "" {
			r = newReplayer() // the steps share a subtree with the tree, which must not change any more
		}
		for _, step := range steps {
			tree = r.replay(tree, step)
		}
		saved = append(saved, steps...)
	}
	return saved, nil
}

// canonical returns the adds and removes that have the same effect on the tree as the operation. The
// section itself is never removed: it becomes empty and keeps its type, map or list.
func (o Operation) canonical(key string, tree any) (steps Patch, err error) {
	for _, path := range o.paths() {
		if len(path) == 0 || path[0] != key {
			return nil, fmt.Errorf("the path must begin with /%s", key)
		}
	}
	path, needed := mustPointer(o.Path), mustPointer(cmp.Or(o.From, o.Path))
	above := path[:len(path)-1]
	if o.Op == "add" {
		needed = above
	}
	if err := checkPresent(tree, needed); err != nil {
		return nil, err
	}
	found, _ := lookup(tree, needed)
	parent, _ := lookup(tree, above)
	remove := Operation{Op: "remove", Path: needed.String()}
	switch _, inList := parent.([]any); o.Op {
	case "test":
		if !equal(found, o.Value) { // values, not their spelling: 1 and 1.0 are equal
			return nil, errors.New("the test failed: the value is different")
		}
		return nil, nil
	case "remove":
		if len(path) == 1 {
			remove = addition(path, emptyLike(found))
		}
		return Patch{remove}, nil
	case "add":
		return Patch{addition(path, o.Value)}, checkPlace(tree, path)
	case "replace":
		if inList { // there an add inserts
			return Patch{remove, addition(path, o.Value)}, nil
		}
		return Patch{addition(path, o.Value)}, nil
	case "copy": // the value is written out: it may not exist when the patch is replayed
		return Patch{addition(path, found)}, checkPlace(tree, path)
	case "move":
		if needed.contains(path) && len(path) > len(needed) {
			return nil, errors.New("a value cannot be moved into itself")
		}
		// A removal from a list shifts the indexes after it.
		return Patch{remove, addition(path, found)}, checkPlace(newReplayer().replay(tree, remove), path)
	}
	return nil, fmt.Errorf("op %q is unknown", o.Op)
}

// addition returns a canonical add.
func addition(path pointer, value any) Operation {
	return Operation{Op: "add", Path: path.String(), Value: value, HasValue: true}
}

// checkPresent returns how far a path leads if it does not lead to a value.
func checkPresent(tree any, path pointer) error {
	if _, ok := lookup(tree, path); ok {
		return nil
	}
	for i := range path {
		parent, _ := lookup(tree, path[:i])
		if _, ok := lookup(parent, path[i:i+1]); !ok {
			return absence(parent, path[:i], path[i])
		}
	}
	return nil
}

// absence words the first element of a path that leads nowhere. parent is the value at path, which
// lacks it.
func absence(parent any, path pointer, element string) error {
	switch container := parent.(type) {
	case map[string]any:
		return fmt.Errorf("there is no %s", append(path[:len(path):len(path)], element))
	case []any:
		return fmt.Errorf("%s is a list of %d, %q is not an index of it", path, len(container), element)
	}
	return fmt.Errorf("%s is %s, which has no elements or keys", path, describe(parent))
}

// checkPlace checks that a value can be added at a path: the parent exists and accepts the last
// element.
func checkPlace(tree any, path pointer) error {
	above, last := path[:len(path)-1], path[len(path)-1]
	if err := checkPresent(tree, above); err != nil {
		return err
	}
	parent, _ := lookup(tree, above)
	switch container := parent.(type) {
	case map[string]any:
		return nil
	case []any:
		if index, ok := listIndex(last); last == appends || (ok && index <= len(container)) {
			return nil
		}
	}
	return absence(parent, above, last)
}

// equal compares two trees by their canonical form, so numbers of different Go types are equal if
// they are written alike.
func equal(a, b any) bool { return Checksum(a) == Checksum(b) }
