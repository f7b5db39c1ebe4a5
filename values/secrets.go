package values

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// secretKey marks a schema whose values are secrets: config patches of hooks store them in the
// Secret, and they are never shown (D41). Unlike with defaults every branch counts, also those of anyOf and then: to
// hide a value without need costs less than to show a secret.
const secretKey = "x-secret"

// secret reports whether the value is marked as a whole.
func (a applied) secret() bool {
	return slices.ContainsFunc(a.schemas, func(s *jsonschema.Schema) bool { return s.WriteOnly })
}

// leads reports whether the value or something below it is annotated.
func (a applied) leads() bool { return len(a.schemas) > 0 }

// step returns what speaks about what an element of a path leads to. It may be a key or a place in a list, which a
// path does not distinguish, so both count.
func (a applied) step(element string) applied {
	return applied{a.in, append(a.key(element).schemas, a.element().schemas...)}
}

// stored reports whether a value belongs in the Secret as a whole: a marked one, or a list with a
// marked part, because the layer above replaces lists as a whole.
func (a applied) stored(value any) bool {
	_, list := value.([]any)
	return a.secret() || list && a.leads()
}

// Secrets determines which values of a section are secret: those that the schemas mark, those in
// the Secret, and those whose keys look like it.
type Secrets struct{ section *Section }

// Secrets returns what is secret in the section.
func (s *Section) Secrets() Secrets { return Secrets{s} }

// Marked reports whether the schema marks the value at a path with x-secret, or a part of it, or a
// list that contains it.
func (s Secrets) Marked(path []string) bool {
	m := s.section.schemas.marks
	for _, key := range path {
		if m.secret() || m.element().leads() {
			return true
		}
		m = m.step(key)
	}
	return m.leads()
}

// Stored reports whether the Secret has a value at a path that wins over the ConfigMap: anything
// but a map, there or above it, also a null.
func (s Secrets) Stored(path []string) bool {
	for i := range len(path) + 1 {
		if value, found := lookup(s.section.secret, path[:i]); found && !isMapOf(value) {
			return s.section.secret != nil
		}
	}
	return false
}

// Stored is the content of the ConfigMap and the Secret for one section. A nil part is absent.
type Stored struct {
	Config, Secret any // nil: nothing
	none           any // an empty section
}

// Stored returns the content of the ConfigMap and the Secret for the section.
func (s *Section) Stored() Stored { return Stored{s.config, s.secret, s.none()} }

// InConfigMap returns the section of the ConfigMap, empty when there is none.
func (s Stored) InConfigMap() any { return cmp.Or(s.Config, s.none) }

// Checksum is that of both parts: a writer of one of them must notice a change of the other. An
// absent part and an empty one are the same.
func (s Stored) Checksum() string {
	return Checksum([]any{s.InConfigMap(), cmp.Or(s.Secret, s.none)})
}

// Misplaced lists the paths that the schema marks as secrets but whose values are in the ConfigMap
// (D41). They stay there until a person or a hook moves them.
func (s Secrets) Misplaced() []string {
	config, found := s.section.config, map[string]bool{}
	eachLeaf(config, nil, func(leaf pointer, _ any) {
		path, marks := s.section.schemas.marks.whole(config, leaf)
		if value, _ := lookup(config, path); config != nil && marks.stored(value) {
			found[dottedIn(s.section.key, s.section.merged, path)] = true
		}
	})
	return sortedKeys(found)
}

// divide distributes a patched config section over the ConfigMap and the Secret (D41). What no
// step touches stays where it is, in both. What a step touches, lists as a whole, goes to the Secret if the
// schema marks it, or if the Secret has a value there already, which would hide a value in the
// ConfigMap. Everything else goes to the ConfigMap.
func (s Stored) divide(patched any, steps Patch, marks applied) (config, secret any) {
	config, secret = s.Config, s.Secret
	var place func(path pointer, m applied, value any)
	place = func(path pointer, m applied, value any) {
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
	for _, step := range steps {
		path, m := marks.whole(patched, mustPointer(aboveLists(step.Path))[1:])
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
	return config, secret
}

// whole returns the beginning of a path whose value is stored as a whole, or else all of it, and the marks there.
func (a applied) whole(tree any, path pointer) (pointer, applied) {
	for i := range path {
		if value, _ := lookup(tree, path[:i]); a.stored(value) {
			return path[:i], a
		}
		a = a.key(path[i])
	}
	return path, a
}

// cutAt removes the value at a path of a copy; nil for the whole.
func cutAt(tree any, path pointer) any {
	if len(path) == 0 {
		return nil
	}
	return Operation{Op: "remove"}.over(tree, path, nil)
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
func (s Secrets) along(path pointer) (m applied, secret bool) {
	m, secret = s.section.schemas.marks, s.Stored(path)
	for i := 0; ; i++ {
		if secret = secret || m.secret(); i == len(path) {
			return m, secret
		}
		m = m.step(path[i])
	}
}

func isMapOf(tree any) bool { _, ok := tree.(map[string]any); return ok }

// Hide returns a tree, the value at a path of the section, without what is or looks like a secret.
func (s Secrets) Hide(tree any, path ...string) any {
	return hideBy(func(_ map[string]any, path pointer, _ bool) bool { return s.at(path) }, tree, path, s.at(path))
}

// Texts returns the texts of the section that must not be shown anywhere (J9): those in the Secret,
// and those that the schema marks, whatever layer they come from. Booleans and nulls are no
// secrets.
func (s Secrets) Texts() []string {
	texts := secretTexts(s.section.secret, applied{}, true)
	texts = append(texts, secretTexts(s.section.config, s.section.schemas.marks, false)...)
	texts = append(texts, secretTexts(s.section.merged, s.section.schemas.marks, false)...)
	slices.Sort(texts)
	return slices.Compact(texts)
}

// secretTexts collects the texts of a tree that are marked or, with hidden, all of them. It does
// not descend where nothing is marked.
func secretTexts(tree any, m applied, hidden bool) []string {
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
