package values

import (
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// apply executes a patch on a section as RFC 6902 requires (D21): a missing path, a missing parent,
// an index out of range and a failed test are errors. It returns the new section and the canonical
// operations that lead to it, for later replays. A section that was removed is empty.
//
// The patch is in effect applied twice. canonical follows it step by step, so that a mistake is
// reported with its operation and in plain words; the library of RFC 6902 then applies the
// canonical steps, and decides.
func apply(key string, section any, patch Patch) (any, Patch, error) {
	steps, err := canonical(key, section, patch)
	if err != nil {
		return nil, nil, err
	}
	tree, err := execute(map[string]any{key: section}, steps)
	if err != nil {
		return nil, nil, fmt.Errorf("section %s: %w", key, err)
	}
	patched, _ := lookup(tree, pointer{key})
	if err := checkSection(key, patched); err != nil {
		return nil, nil, fmt.Errorf("section %s after the patch: %w", key, err)
	}
	return patched, steps, nil
}

// execute applies canonical operations strictly, to the text of the part of the tree that they
// reach.
func execute(tree any, steps Patch) (any, error) {
	if len(steps) == 0 {
		return tree, nil
	}
	paths := make([]pointer, 0, len(steps))
	for _, step := range steps {
		paths = append(paths, mustPointer(step.Path))
	}
	var hidden excerpt
	before, err := hidden.write(nil, tree, paths)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(steps)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	options := jsonpatch.NewApplyOptions()
	// The library's defaults differ from the RFC: -1 would be the last element, and <, > and &
	// would be escaped.
	options.SupportNegativeIndices = false
	options.EscapeHTML = false
	after, err := operations.ApplyWithOptions(before, options)
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	return hidden.read(after)
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

// canonical returns the adds and removes that have the same effect on the tree as the operation.
func (o Operation) canonical(key string, tree any) (Patch, error) {
	for _, path := range o.paths() {
		if len(path) == 0 || path[0] != key {
			return nil, fmt.Errorf("the path must begin with /%s", key)
		}
	}
	path := mustPointer(o.Path)
	switch o.Op {
	case "test":
		return nil, checkTest(tree, path, o.Value)
	case "remove":
		return removeSteps(tree, path)
	case "replace":
		return replaceSteps(tree, path, o.Value)
	case "add":
		return Patch{addition(path, o.Value)}, checkPlace(tree, path)
	case "move", "copy":
		return o.transferSteps(tree, path)
	}
	return nil, fmt.Errorf("op %q is unknown", o.Op)
}

// addition returns a canonical add.
func addition(path pointer, value any) Operation {
	return Operation{Op: "add", Path: path.String(), Value: value, HasValue: true}
}

// removeSteps removes a value. The section itself is never removed: it becomes empty and keeps its
// type, map or list.
func removeSteps(tree any, path pointer) (Patch, error) {
	if err := checkPresent(tree, path); err != nil {
		return nil, err
	}
	if len(path) == 1 {
		section, _ := lookup(tree, path)
		return Patch{addition(path, emptyLike(section))}, nil
	}
	return Patch{{Op: "remove", Path: path.String()}}, nil
}

// replaceSteps replaces a value. In a list an add inserts, so the old element is removed first; in
// a map an add replaces.
func replaceSteps(tree any, path pointer, value any) (Patch, error) {
	if err := checkPresent(tree, path); err != nil {
		return nil, err
	}
	parent, _ := lookup(tree, path[:len(path)-1])
	if _, ok := parent.([]any); ok {
		return Patch{{Op: "remove", Path: path.String()}, addition(path, value)}, nil
	}
	return Patch{addition(path, value)}, nil
}

// transferSteps writes out the value that is copied or moved: it may not exist when the patch is
// replayed. The place to move to is checked in the tree without the value, because a removal from a
// list shifts the indexes after it.
func (o Operation) transferSteps(tree any, path pointer) (Patch, error) {
	from := mustPointer(o.From)
	if err := checkPresent(tree, from); err != nil {
		return nil, err
	}
	value, _ := lookup(tree, from)
	if o.Op == "copy" {
		return Patch{addition(path, value)}, checkPlace(tree, path)
	}
	if from.contains(path) && len(path) > len(from) {
		return nil, errors.New("a value cannot be moved into itself")
	}
	remove := Operation{Op: "remove", Path: from.String()}
	return Patch{remove, addition(path, value)}, checkPlace(newReplayer().replay(tree, remove), path)
}

// checkTest compares values, not their spelling: 1 and 1.0 are equal. The error does not show the
// values, which may be secrets (D38).
func checkTest(tree any, path pointer, want any) error {
	if err := checkPresent(tree, path); err != nil {
		return err
	}
	value, _ := lookup(tree, path)
	if !equal(value, want) {
		return errors.New("the test failed: the value is different")
	}
	return nil
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
