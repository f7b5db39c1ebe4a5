package values

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Hidden replaces a value that looks like a secret (D38).
const Hidden = "***"

// View is a section as people are shown it.
type View struct {
	Merged  any
	Config  any
	Patches []SavedOperation
}

// SavedOperation is an operation of the saved patches together with its origin. Its JSON is that of
// the operation with more fields.
type SavedOperation struct {
	Operation
	Origin Origin
}

// MarshalJSON implements json.Marshaler.
func (o SavedOperation) MarshalJSON() ([]byte, error) {
	out := struct {
		Op    string     `json:"op"`
		Path  string     `json:"path"`
		Value *any       `json:"value,omitempty"`
		Hook  string     `json:"hook,omitempty"`
		Task  string     `json:"task,omitempty"`
		Time  *time.Time `json:"time,omitempty"`
	}{Op: o.Op, Path: o.Path, Hook: o.Origin.Hook, Task: o.Origin.Task}
	if o.HasValue {
		out.Value = &o.Value
	}
	if !o.Origin.Time.IsZero() {
		out.Time = &o.Origin.Time
	}
	return json.Marshal(out)
}

// View returns the section as it is or, without secrets, with everything hidden that is or looks
// like a secret.
func (s *Section) View(secrets bool) View {
	view := View{Merged: s.merged, Config: s.Config(), Patches: []SavedOperation{}}
	for _, operation := range s.saved {
		view.Patches = append(view.Patches, SavedOperation{operation, operation.Origin()})
	}
	if secrets {
		return view
	}
	own := s.Secrets()
	view.Merged, view.Config = own.hide(nil, view.Merged), own.hide(nil, view.Config)
	for i, o := range view.Patches {
		view.Patches[i].Value = own.hide(mustPointer(o.Path)[1:], o.Value)
	}
	return view
}

// Masked returns the leaf without values that look like secrets. The receiver does not change: a
// leaf is shown to several readers.
func (l Leaf) Masked() Leaf {
	l.Sources = slices.Clone(l.Sources)
	for i := range l.Sources {
		l.Sources[i].Value = hide(l.Sources[i].Value, l.Secret)
	}
	return l
}

// Change is a leaf whose value differs from the one before.
type Change struct {
	Path   string `json:"path"`
	Secret bool   `json:"secret,omitempty"`
	Before any    `json:"before"`
	After  any    `json:"after"`
	Added  bool   `json:"added,omitempty"`   // there was nothing before
	Gone   bool   `json:"removed,omitempty"` // there is nothing any more
	// By is the source in force now; for a leaf that is gone, what removed it, or nothing when no
	// layer has it any more.
	By *Source `json:"by,omitempty"`
}

// Masked returns the change without values that look like secrets.
func (c Change) Masked() Change {
	c.Before, c.After = hide(c.Before, c.Secret), hide(c.After, c.Secret)
	if c.By != nil {
		by := *c.By
		by.Value = hide(by.Value, c.Secret)
		c.By = &by
	}
	return c
}

// Diff lists the leaves that differ from an older state of the section, sorted by path. A map that
// replaces a scalar is a change of each of its leaves, and of the scalar's path.
func (s *Section) Diff(before *Section) []Change {
	if before.Checksum() == s.Checksum() {
		return nil
	}
	paths := map[string]pointer{}
	differs := func(path pointer, _ any) {
		old, had := lookup(before.merged, path)
		now, has := lookup(s.merged, path)
		_, was := old.(map[string]any)
		if _, is := now.(map[string]any); was && is { // an empty map is a leaf; what is in the other one says more
			return
		}
		if had != has || !reflect.DeepEqual(old, now) {
			paths[path.String()] = path
		}
	}
	eachLeaf(before.merged, nil, differs)
	eachLeaf(s.merged, nil, differs)
	h := historyOver(s, nil)
	var changes []Change
	for _, text := range sortedKeys(paths) {
		path := paths[text]
		old, had := lookup(before.merged, path)
		now, has := lookup(s.merged, path)
		leaf := h.leaf(path)
		change := Change{Path: leaf.Path, Secret: leaf.Secret || before.Secrets().at(path), Before: old, After: now, Added: !had, Gone: !has}
		if len(leaf.Sources) > 0 {
			change.By = &leaf.Sources[0]
		}
		changes = append(changes, change)
	}
	return changes
}

// hide replaces what looks like a secret: texts and numbers below a key that looks like that of a
// secret, keys in PEM, and inside of texts what hideCredentials finds. Booleans, nulls and empty
// texts stay.
func hide(tree any, secret bool) any {
	return hideWhere(tree, secret, func(_ map[string]any, key string, above bool) bool { return secret || secretBelow(above, key) })
}

// hideWhere is hide with another judge of keys. above: the value of the map itself is a secret.
func hideWhere(tree any, secret bool, isSecret func(m map[string]any, key string, above bool) bool) any {
	switch v := tree.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, child := range v {
			out[key] = hideWebhook(key, hideWhere(child, isSecret(v, key, secret), isSecret))
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = hideWhere(child, secret || i > 0 && asksForCredential(v[i-1]), isSecret)
		}
		return out
	case nil, bool:
		return tree
	case string:
		switch {
		case v == "":
			return v
		case secret || strings.Contains(v, "-----BEGIN"):
			return Hidden
		}
		return hideCredentials(v)
	}
	if secret {
		return Hidden
	}
	return tree
}
