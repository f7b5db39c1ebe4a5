package values

import "slices"

// foldLimit is the number of saved operations through lists that one container may collect. Appends cannot be compacted
// (T19), so a hook that appends at every run would let the list of patches grow for ever; beyond the limit the container is
// saved as it stands.
const foldLimit = 256

// save adds canonical operations to the saved ones and keeps the list bounded (D22, D23). The merged tree is the section after
// the operations.
func save(saved, operations Patch, key string, merged any) Patch {
	saved = slices.Clone(saved)
	for _, operation := range operations {
		saved = compact(saved, operation)
	}
	return fold(saved, key, merged)
}

// compact adds one operation and drops those that it makes irrelevant: earlier ones at or below its path, since whatever they
// did is overwritten. Two things keep that sound for every tree the list may be replayed over:
//
//   - Paths through lists are never compacted, and stop the search when they lie in the same field of the section: what they
//     mean depends on what was there before them (T19).
//   - A dropped add may have created the parents of its path. An add at the path creates them as well; a remove does not, so it
//     then keeps an add of an empty map before it.
func compact(saved Patch, last Operation) Patch {
	path := mustPointer(last.Path)
	if path.isPositional() {
		return append(saved, last)
	}
	kept := make(Patch, 0, len(saved)+1)
	droppedAdd := false
	i := len(saved) - 1
	for ; i >= 0; i-- {
		earlier := mustPointer(saved[i].Path)
		if path.contains(earlier) {
			droppedAdd = droppedAdd || saved[i].Op == "add"
			continue
		}
		if earlier.isPositional() && sameField(path, earlier) {
			break
		}
		kept = append(kept, saved[i])
	}
	slices.Reverse(kept)
	kept = append(slices.Clone(saved[:i+1]), kept...)
	if last.Op == "remove" && droppedAdd && len(path) > 2 {
		kept = append(kept, addition(path, map[string]any{}))
	}
	return append(kept, last)
}

// sameField tells whether two paths meet below the root of the section, where one may create parents that the other needs.
func sameField(a, b pointer) bool {
	return len(a) < 2 || len(b) < 2 || a[1] == b[1]
}

// fold replaces the operations on a container by its present value, when too many of them go through lists.
func fold(saved Patch, key string, merged any) Patch {
	counts := map[string]int{}
	for _, operation := range saved {
		if path := mustPointer(operation.Path); path.isPositional() {
			counts[path.aboveLists().String()]++
		}
	}
	for _, text := range sortedKeys(counts) {
		if counts[text] <= foldLimit {
			continue
		}
		path := mustPointer(text)
		saved = slices.DeleteFunc(slices.Clone(saved), func(o Operation) bool { return path.contains(mustPointer(o.Path)) })
		if value, ok := lookup(map[string]any{key: merged}, path); ok {
			saved = append(saved, addition(path, value))
		} else {
			saved = append(saved, Operation{Op: "remove", Path: text})
		}
	}
	return saved
}

// aboveLists is the longest beginning of a path that surely goes through maps only.
func (p pointer) aboveLists() pointer {
	for i := range p {
		if p[i : i+1].isPositional() {
			return p[:i]
		}
	}
	return p
}
