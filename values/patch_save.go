package values

import (
	"slices"
	"strings"
)

// foldLimit is the number of saved operations through lists that one container may collect. Appends
// cannot be compacted (D23), so a hook that appends at every run would make the list of patches
// grow without end; beyond the limit the present value of the container is saved instead (D23).
// From then on a change of the layers below that container has no effect on it.
const foldLimit = 256

// save adds canonical operations to the saved ones and bounds the list (D22, D23). merged is the
// section after the operations. The arguments are not changed, because sections share their lists.
func save(saved, operations Patch, key string, merged any) Patch {
	saved = slices.Clone(saved)
	for _, operation := range operations {
		saved = compact(saved, operation)
	}
	return fold(saved, key, merged)
}

// compact adds one operation and drops those that it makes irrelevant: earlier ones at or below its
// path, because it overwrites their effect. Two rules keep that sound for every tree over which the
// list may be replayed:
//
//   - Paths through lists are never compacted, and they stop the search if they are in the same
//     field of the section: what they mean depends on what was there before them (D23).
//   - A dropped add may have created the parents of its path. An add at the path creates them as
//     well; a remove does not, so an add of an empty map is kept before it.
//
// The list of saved operations is changed in place. Paths are compared as texts, which are
// canonical.
func compact(saved Patch, last Operation) Patch {
	if isPositional(last.Path) {
		return append(saved, last)
	}
	droppedAdd := false
	from := len(saved)
	for ; from > 0; from-- {
		earlier := saved[from-1]
		if isAtOrBelow(earlier.Path, last.Path) {
			droppedAdd = droppedAdd || earlier.Op == "add"
		} else if isPositional(earlier.Path) && sameField(earlier.Path, last.Path) {
			break
		}
	}
	dropped := func(o Operation) bool { return isAtOrBelow(o.Path, last.Path) }
	saved = saved[:from+len(slices.DeleteFunc(saved[from:], dropped))]
	if path := mustPointer(last.Path); last.Op == "remove" && droppedAdd && len(path) > 2 {
		parents := addition(path, map[string]any{})
		parents.by = last.by
		saved = append(saved, parents)
	}
	return append(saved, last)
}

// isAtOrBelow reports whether a path is another one or below it. A common prefix is not enough:
// /m/ab is not below /m/a.
func isAtOrBelow(path, above string) bool {
	below, found := strings.CutPrefix(path, above)
	return found && (below == "" || below[0] == '/')
}

// sameField reports whether two paths share the first key below the section, so that one may create
// parents that the other needs. The section itself shares it with all.
func sameField(a, b string) bool {
	fieldA, fieldB := field(a), field(b)
	return fieldA == "" || fieldB == "" || fieldA == fieldB
}

// field returns the second element of a path; "" for the section itself.
func field(path string) string {
	_, below, _ := strings.Cut(path[1:], "/")
	name, _, _ := strings.Cut(below, "/")
	return name
}

// fold replaces the operations on a container by its present value if too many of them go through
// lists. The origin of the last one becomes that of the value. If the container is gone, a remove
// replaces them.
func fold(saved Patch, key string, merged any) Patch {
	counts := map[string]int{}
	for _, operation := range saved {
		if isPositional(operation.Path) {
			counts[aboveLists(operation.Path)]++
		}
	}
	for _, text := range sortedKeys(counts) {
		if counts[text] <= foldLimit {
			continue
		}
		path := mustPointer(text)
		folded := Operation{Op: "remove", Path: text}
		if value, ok := lookup(map[string]any{key: merged}, path); ok {
			folded = addition(path, value)
		}
		saved = slices.DeleteFunc(saved, func(o Operation) bool {
			if !isAtOrBelow(o.Path, text) {
				return false
			}
			folded.by = o.by
			return true
		})
		saved = append(saved, folded)
	}
	return saved
}
