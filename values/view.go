package values

import (
	"reflect"
	"slices"
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

// Masked returns the leaf without values that look like secrets. The receiver does not change: a
// leaf is shown to several readers.
func (l Leaf) Masked() Leaf {
	l.Sources = slices.Clone(l.Sources)
	for i := range l.Sources {
		l.Sources[i].Value = Mask(l.Sources[i].Value, l.Secret)
	}
	return l
}

// Change is a leaf whose value differs from the one before.
type Change struct {
	Path   string
	Before any
	After  any
	Added  bool // there was nothing before
	Gone   bool // there is nothing any more
	secret bool
}

// Masked returns the change without values that look like secrets.
func (c Change) Masked() Change {
	c.Before, c.After = Mask(c.Before, c.secret), Mask(c.After, c.secret)
	return c
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
			changes[path.String()] = Change{
				Path: dottedIn(s.key, s.merged, path), Before: old, After: now, Added: !had, Gone: !has,
				secret: s.Secrets().leaf(path) || before.Secrets().leaf(path),
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
