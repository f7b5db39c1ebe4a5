package values

import (
	"reflect"
)

// Hidden replaces a value that looks like a secret (D38).
const Hidden = "***"

// Saved returns the saved operations with their origins, as people are shown them: unless they ask for secrets,
// without what is or looks like one.
func (s *Section) Saved(secrets bool) Patch {
	saved, own := append(Patch{}, s.saved...), s.Secrets()
	for i, o := range saved {
		if !secrets {
			saved[i].Value = own.Hide(o.Value, mustPointer(o.Path)[1:]...)
		}
	}
	return saved
}

// Change is a leaf whose value differs from the one before, both without what looks like a secret.
type Change struct {
	Path   string
	Before any
	After  any
	Added  bool // there was nothing before
	Gone   bool // there is nothing any more
}

// Diff lists the leaves that differ from an older state of the section, sorted by path. A map that
// replaces a scalar is a change of each of its leaves, and of the scalar's path.
func (s *Section) Diff(before *Section) []Change {
	if before.Checksum() == s.Checksum() {
		return nil
	}
	changes := map[string]Change{}
	differs := func(path pointer, _ any) {
		old, had := lookup(before.merged, path)
		now, has := lookup(s.merged, path)
		if isMapOf(old) && isMapOf(now) { // an empty map is a leaf; what is in the other one says more
			return
		}
		if had != has || !reflect.DeepEqual(old, now) {
			secret := s.Secrets().leaf(path) || before.Secrets().leaf(path)
			changes[path.String()] = Change{
				Path: dottedIn(s.key, s.merged, path), Before: Mask(old, secret), After: Mask(now, secret), Added: !had, Gone: !has,
			}
		}
	}
	eachLeaf(before.merged, nil, differs)
	eachLeaf(s.merged, nil, differs)
	var sorted []Change
	for _, path := range sortedKeys(changes) {
		sorted = append(sorted, changes[path])
	}
	return sorted
}
