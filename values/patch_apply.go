package values

import (
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// apply executes a patch on a section as RFC 6902 wants it (D21): a missing path, a missing parent, an index out of range and
// a failed test are errors. It gives the new section and the canonical operations that lead to it, for replaying them later.
// A section that was removed is empty.
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

// execute runs canonical operations strictly, on the text of as much of the tree as they reach.
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
	options.SupportNegativeIndices = false
	options.EscapeHTML = false
	after, err := operations.ApplyWithOptions(before, options)
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	return hidden.read(after)
}

// canonical rewrites a patch into add and remove only (D22, D23): what was tested, copied or moved is not there to be looked
// at again when the patch is replayed over other layers, so tests are dropped and copies become their value. It is also where
// faulty operations are found, each with words about it.
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
			if size += added; size > maxSize { // a few copies of copies are more than there is memory
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

// canonical gives the adds and removes that do to the tree what the operation does.
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

// addition makes a canonical add.
func addition(path pointer, value any) Operation {
	return Operation{Op: "add", Path: path.String(), Value: value, HasValue: true}
}

// removeSteps knows that the section itself never goes: without content it is empty.
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

// replaceSteps knows that adding to a list inserts, so an element is removed first.
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

// transferSteps writes the value out that is copied or moved: when the patch is replayed, it may not be there any more.
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

// checkTest compares values, not their spelling: 1 and 1.0 are equal.
func checkTest(tree any, path pointer, want any) error {
	if err := checkPresent(tree, path); err != nil {
		return err
	}
	value, _ := lookup(tree, path)
	if !equal(value, want) {
		return errors.New("the test failed: the value there is another one")
	}
	return nil
}

// checkPresent says how far a path leads, when it does not lead to a value.
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

// absence words what stands in the way at the first element that leads nowhere.
func absence(parent any, path pointer, element string) error {
	switch container := parent.(type) {
	case map[string]any:
		return fmt.Errorf("there is no %s", append(path[:len(path):len(path)], element))
	case []any:
		return fmt.Errorf("%s is a list of %d, %q is not an index of it", path, len(container), element)
	}
	return fmt.Errorf("%s is %s, nothing can be below it", path, describe(parent))
}

// checkPlace reports whether a value can be added at a path: the parent is there and takes it.
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

// equal compares two trees.
func equal(a, b any) bool { return Checksum(a) == Checksum(b) }
