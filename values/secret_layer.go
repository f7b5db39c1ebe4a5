package values

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Stored is the content of the ConfigMap and the Secret for one section. A nil part is absent.
type Stored struct {
	Config, Secret any // nil: nothing
	none           any // an empty section
}

// Stored returns the content of the ConfigMap and the Secret for the section.
func (s *Section) Stored() Stored { return Stored{s.config, s.secret, s.none()} }

// InConfigMap returns the section of the ConfigMap, empty when there is none.
func (s Stored) InConfigMap() any {
	if s.Config == nil {
		return s.none
	}
	return s.Config
}

// Checksum is that of both parts: a writer of one of them must notice a change of the other. An
// absent part and an empty one are the same.
func (s Stored) Checksum() string {
	secret := s.Secret
	if secret == nil {
		secret = s.none
	}
	return Checksum([]any{s.InConfigMap(), secret})
}

// Misplaced lists the paths that the schema marks as secrets but whose values are in the ConfigMap
// (D41). They stay there until a person or a hook moves them.
func (s Secrets) Misplaced() []string {
	var paths []string
	var visit func(tree any, path pointer, m marked)
	visit = func(tree any, path pointer, m marked) {
		if !m.leads() {
			return
		}
		if m.stored(tree) {
			paths = append(paths, dottedIn(s.section.key, s.section.merged, path))
			return
		}
		object, _ := tree.(map[string]any)
		for _, key := range sortedKeys(object) {
			visit(object[key], append(path[:len(path):len(path)], key), m.key(key))
		}
	}
	if s.section.config != nil {
		visit(s.section.config, nil, s.marked)
	}
	return paths
}

// divide distributes a patched config section over the ConfigMap and the Secret (D41). What no
// operation touches stays where it is, in both. What an operation touches goes to the Secret if the
// schema marks it, or if the Secret has a value there already, which would hide a value in the
// ConfigMap. Everything else goes to the ConfigMap.
func (s Stored) divide(patched any, operations Patch, marks marked) (config, secret any) {
	config, secret = s.Config, s.Secret
	var place func(path pointer, m marked, value any)
	place = func(path pointer, m marked, value any) {
		object, isMap := value.(map[string]any)
		below, inConfig := lookup(s.Config, path)
		_, inSecret := lookup(s.Secret, path)
		switch {
		case m.stored(value):
			secret = putAt(secret, path, value)
		case isMap && len(object) > 0:
			for key, child := range object {
				place(slices.Concat(path, pointer{key}), m.key(key), child)
			}
		case inSecret && !(isMap && inConfig): // over what is in the ConfigMap there, which stays
			secret = putAt(secret, path, value)
			if inConfig {
				config = putAt(config, path, below)
			}
		default:
			config = putAt(config, path, value)
		}
	}
	for _, operation := range operations {
		for _, path := range operation.changes() {
			path, m := marks.whole(patched, path)
			config, secret = cutAt(config, path), cutAt(secret, path)
			if value, found := lookup(patched, path); found {
				place(path, m, value)
			}
			for i := len(path) - 1; i > 0; i-- { // an empty map would hide what is in the ConfigMap later
				if empty, _ := lookup(secret, path[:i]); isEmpty(empty) && isMapOf(empty) {
					secret = cutAt(secret, path[:i])
				}
			}
		}
	}
	return config, secret
}

// whole returns the beginning of a path whose value is stored as a whole, or else all of it, and the marks there.
func (m marked) whole(tree any, path pointer) (pointer, marked) {
	for i := range path {
		if value, _ := lookup(tree, path[:i]); m.stored(value) {
			return path[:i], m
		}
		m = m.key(path[i])
	}
	return path, m
}

// changes returns the paths that an operation changes in a section, with lists as a whole.
func (o Operation) changes() (paths []pointer) {
	for i, path := range o.paths() {
		if o.Op == "test" || i > 0 && o.Op == "copy" {
			break
		}
		paths = append(paths, mustPointer(aboveLists(path.String()))[1:])
	}
	return paths
}

// cutAt removes the value at a path of a copy; nil for the whole.
func cutAt(tree any, path pointer) any {
	if len(path) == 0 {
		return nil
	}
	return Operation{Op: "remove"}.over(tree, path)
}

// putAt sets the value at a path of a copy, and makes the maps that lead to it.
func putAt(tree any, path pointer, value any) any {
	if len(path) == 0 {
		return value
	}
	m, _ := tree.(map[string]any)
	changed := maps.Clone(m)
	if changed == nil {
		changed = map[string]any{}
	}
	changed[path[0]] = putAt(m[path[0]], path[1:], value)
	return changed
}

// at reports whether a value must not be shown: a key on its path or the schema marks it as secret, or
// it is from the Secret.
func (s Secrets) at(path pointer) bool {
	_, stored := s.along(path)
	return stored || secretPath(path)
}

// leaf is at for a leaf, which may be a list with a marked part.
func (s Secrets) leaf(path pointer) bool {
	m, stored := s.along(path)
	return stored || m.leads() || secretPath(path)
}

// along returns the marks of the value at a path, and whether it is secret by them, or comes from the Secret: names of
// keys, which say less, do not count, so nothing below such a value may be shown.
func (s Secrets) along(path pointer) (m marked, stored bool) {
	m, secret := s.marked, s.section.secret
	for i := 0; ; i++ {
		stored = stored || m.secret() || secret != nil && !isMapOf(secret)
		if i == len(path) {
			return m, stored
		}
		m, secret = m.step(path[i]), childOf(secret, path[i])
	}
}

func isMapOf(tree any) bool { _, ok := tree.(map[string]any); return ok }

func childOf(tree any, key string) any {
	m, _ := tree.(map[string]any)
	return m[key]
}

// hide hides the secrets of a tree that is the value at a path of the section.
func (s Secrets) hide(path pointer, tree any) any {
	return hideBy(func(_ map[string]any, path pointer, _ bool) bool { return s.at(path) }, tree, path, s.at(path))
}

// Texts returns the texts of the section that must not be shown anywhere (J9): those in the Secret,
// and those that the schema marks, whatever layer they come from. Booleans and nulls are no
// secrets.
func (s Secrets) Texts() []string {
	texts := secretTexts(s.section.secret, marked{}, true)
	texts = append(texts, secretTexts(s.section.config, s.marked, false)...)
	texts = append(texts, secretTexts(s.section.merged, s.marked, false)...)
	slices.Sort(texts)
	return slices.Compact(texts)
}

// secretTexts collects the texts of a tree that are marked or, with hidden, all of them. It does
// not descend where nothing is marked.
func secretTexts(tree any, m marked, hidden bool) []string {
	if !hidden && !m.leads() {
		return nil
	}
	hidden = hidden || m.secret()
	var texts []string
	switch v := tree.(type) {
	case map[string]any:
		for key, child := range v {
			texts = append(texts, secretTexts(child, m.key(key), hidden)...)
		}
	case []any:
		for _, child := range v {
			texts = append(texts, secretTexts(child, m.element(), hidden)...)
		}
	case nil, bool:
	case string:
		if hidden {
			texts = append(texts, v)
		}
	default:
		if text, err := JSON(v); err == nil && hidden {
			texts = append(texts, string(text))
			if f, err := strconv.ParseFloat(string(text), 64); err == nil { // as templates print it (H2)
				texts = append(texts, fmt.Sprint(f), strconv.FormatFloat(f, 'f', -1, 64))
			}
		}
	}
	return texts
}
