package values

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// apply executes a patch on a section as RFC 6902 requires (D21): a missing path, a missing parent,
// an index out of range and a failed test are errors. A section that was removed is empty.
func (p Patch) apply(key string, section any) (patched any, err error) {
	for i, operation := range p {
		if !operation.within(key) {
			return nil, fmt.Errorf("patch operation %d, %s: the path must begin with /%s", i+1, operation, key)
		}
		if strings.HasPrefix(operation.Path, operation.From+"/") && operation.Op == "move" { // the library finds its neighbour there
			return nil, fmt.Errorf("patch operation %d, %s: a value cannot be moved into itself", i+1, operation)
		}
	}
	if patched, err = p.execute(key, section); err != nil {
		n := sort.Search(len(p)-1, func(n int) bool { _, err := p[:n+1].execute(key, section); return err != nil })
		before, _ := p[:n].execute(key, section)
		return nil, fmt.Errorf("patch operation %d, %s: %w", n+1, p[n], p[n].failure(map[string]any{key: before}, err))
	}
	if err := errors.Join(checkSection(key, patched), bounded(patched)); err != nil {
		return nil, fmt.Errorf("section %s after the patch: %w", key, err)
	}
	return patched, nil
}

// maxChanges bounds how often a patch may test after it has changed something: each time the section is written and
// read.
const maxChanges = 32

var errTestsBetween = fmt.Errorf("tests stand between changes more than %d times; move the tests to the beginning", maxChanges)

// execute is apply without checks of the result. Tests are made here: the library's panic at a null in a list, and
// take what is not there for null.
func (p Patch) execute(key string, section any) (any, error) {
	for changes := 0; len(p) > 0; {
		if p[0].Op == "test" {
			value, ok := lookup(map[string]any{key: section}, mustPointer(p[0].Path))
			if !ok {
				return nil, jsonpatch.ErrMissing
			} else if Checksum(value) != Checksum(p[0].Value) { // 1 and 1.0 are equal
				return nil, jsonpatch.ErrTestFailed
			}
			p = p[1:]
			continue
		}
		if changes++; changes > maxChanges {
			return nil, errTestsBetween
		}
		n := slices.IndexFunc(p, func(o Operation) bool { return o.Op == "test" })
		if n < 0 {
			n = len(p)
		}
		var err error
		if section, err = p[:n].change(key, section); err != nil {
			return nil, err
		}
		p = p[n:]
	}
	return section, nil
}

// change executes operations by the library.
func (p Patch) change(key string, section any) (patched any, err error) {
	part, rest := p.split(section)
	text, err := JSON(map[string]any{key: part})
	if err != nil {
		return nil, err
	}
	steps, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.DecodePatch(steps)
	if err != nil {
		return nil, err
	}
	options := jsonpatch.NewApplyOptions()
	// The library's defaults differ from the RFC: -1 would be the last element, and <, > and &
	// would be escaped.
	options.SupportNegativeIndices, options.EscapeHTML = false, false
	options.AccumulatedCopySizeLimit = maxSize // copies of copies double at each operation
	if text, err = operations.ApplyWithOptions(text, options); err != nil {
		return nil, err
	}
	tree, err := decodeJSON(text)
	m, _ := tree.(map[string]any)
	patched, found := m[key]
	if !found || err != nil {
		return emptyLike(section), err
	}
	if p.oddIndex(map[string]any{key: part}) || p.oddIndex(tree) {
		return nil, jsonpatch.ErrInvalidIndex
	}
	if fields, ok := patched.(map[string]any); ok && rest != nil {
		maps.Copy(fields, rest)
	}
	return patched, nil
}

// oddIndex reports whether a path names an element of a list in a way that the library reads and RFC 6901 does not
// have: 01, +1, -0. Such a change could not be found again when it is saved.
func (p Patch) oddIndex(tree any) bool {
	for _, o := range p {
		for _, path := range o.paths() {
			for i, element := range path {
				container, ok := lookup(tree, path[:i])
				if !ok {
					break
				}
				_, index := listIndex(element)
				if _, list := container.([]any); list && !index && element != appends {
					return true
				}
			}
		}
	}
	return false
}

// split divides a section into the fields that the patch touches, which the library has to read and to write, and the
// others; nil when the patch is about the section as a whole.
func (p Patch) split(section any) (part any, rest map[string]any) {
	fields, ok := section.(map[string]any)
	if !ok {
		return section, nil
	}
	touched := map[string]any{}
	for _, o := range p {
		for _, path := range o.paths() {
			if len(path) < 2 {
				return section, nil
			}
			if value, ok := fields[path[1]]; ok {
				touched[path[1]] = value
			}
		}
	}
	rest = maps.Clone(fields)
	maps.DeleteFunc(rest, func(field string, _ any) bool { _, is := touched[field]; return is })
	return touched, rest
}

// failure words why an operation does not apply to a tree. The text of the library repeats values, which may be
// secrets (D38).
func (o Operation) failure(tree any, err error) error {
	var copied *jsonpatch.AccumulatedCopySizeError
	switch {
	case errors.Is(err, jsonpatch.ErrTestFailed):
		return errors.New("the test failed: the value is different")
	case errors.As(err, &copied):
		return errTooLarge
	case errors.Is(err, errTestsBetween):
		return err
	case o.From != "":
		err = absence(tree, mustPointer(o.From), false)
	default:
		err = nil
	}
	adds := o.Op == "add" || o.From != ""
	return cmp.Or(err, absence(tree, mustPointer(o.Path), adds), errors.New("it does not fit the values"))
}

// absence words the first element of a path that leads nowhere. adds: the last one need not be there.
func absence(tree any, path pointer, adds bool) error {
	for i, element := range path {
		child, ok := lookup(tree, path[i:i+1])
		switch container := tree.(type) {
		case map[string]any:
			if !ok && !(adds && i == len(path)-1) {
				return fmt.Errorf("there is no %s", path[:i+1])
			}
		case []any:
			if !ok {
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

// save adds the operations of a patch to the saved ones (D22). below is the section without the saved ones, and merged
// with all of them: where a replay gives another result, as after a move, the present values of what the patch has
// changed are saved.
func (p Patch) save(patch Patch, by Origin, key string, below, merged any) Patch {
	all, renew, counts := slices.Clone(p), map[string]bool{}, map[string]int{}
	for _, o := range patch {
		o.by = &by
		all = all.with(o)
	}
	if !reflect.DeepEqual(all.replay(below), merged) {
		for _, o := range patch {
			for _, path := range o.changes() {
				renew[JSONPointer(key)+path.String()] = true
			}
		}
	}
	for _, o := range all {
		above := aboveLists(o.Path)
		if counts[above]++; above != o.Path && counts[above] > foldLimit {
			renew[above] = true
		}
	}
	if len(all) > maxSaved {
		renew = map[string]bool{JSONPointer(key): true}
	}
	for _, path := range sortedKeys(renew) {
		o := Operation{Op: "remove", Path: path, by: &by}
		if value, ok := lookup(map[string]any{key: merged}, mustPointer(path)); ok {
			o.Op, o.Value, o.HasValue = "add", value, true
		}
		all = append(all.without(path), o)
	}
	return all
}

// with adds an operation as an add or a remove, because what was tested, moved or copied may not exist when it is
// replayed over other layers. It drops earlier ones at or below its path, unless that leads through a list.
func (p Patch) with(o Operation) Patch {
	if o.From != "" || o.Op == "test" {
		return p
	}
	if aboveLists(o.Path) == o.Path {
		p = p.without(o.Path)
	} else if o.Op == "replace" { // in a list an add inserts
		p = append(p, Operation{Op: "remove", Path: o.Path, by: o.by})
	}
	if o.Op == "replace" {
		o.Op = "add"
	}
	return append(p, o)
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
	for _, o := range p {
		section = o.over(section, mustPointer(o.Path)[1:])
	}
	return section
}

// over executes an add or a remove leniently: it always succeeds. A value to remove may be missing; missing maps above
// a value are made; an index beyond the end appends. An operation below a scalar, or in a list that no longer
// exists, has no effect, because what the hook wanted to change does not exist any more. The tree is not changed.
func (o Operation) over(tree any, path pointer) any {
	switch container := tree.(type) {
	case map[string]any:
		if len(path) > 0 {
			return o.overMap(container, path)
		}
	case []any:
		if len(path) > 0 {
			return o.overList(container, path)
		}
	}
	switch {
	case len(path) > 0:
		return tree
	case o.Op == "remove":
		return emptyLike(tree)
	}
	return o.Value
}

func (o Operation) overMap(m map[string]any, path pointer) any {
	child := m[path[0]]
	below := path[1:].String()
	if child == nil && (o.Op == "remove" && len(path) > 1 || aboveLists(below) != below) {
		return m
	} else if child == nil && len(path) > 1 {
		child = map[string]any{}
	}
	changed := maps.Clone(m)
	if len(path) == 1 && o.Op == "remove" {
		delete(changed, path[0])
	} else {
		changed[path[0]] = o.over(child, path[1:])
	}
	return changed
}

func (o Operation) overList(list []any, path pointer) any {
	i, ok := listIndex(path[0])
	changed := slices.Clone(list)
	switch {
	case len(path) == 1 && o.Op == "add" && (path[0] == appends || ok && i > len(list)):
		return append(changed, o.Value)
	case len(path) == 1 && o.Op == "add" && ok:
		return slices.Insert(changed, i, o.Value)
	case !ok || i >= len(list):
		return list
	case len(path) == 1:
		return slices.Delete(changed, i, i+1)
	}
	changed[i] = o.over(list[i], path[1:])
	return changed
}
