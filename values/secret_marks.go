package values

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// secretKey marks a schema whose values are secrets: config patches of hooks store them in the
// Secret, and they are never shown (D41).
const secretKey = "x-secret"

// marked are the marks of all schemas for one value. A value is secret if one of them marks it. Unlike with defaults
// every branch counts, also those of anyOf and then: to hide a value without need costs less than to show a secret.
type marked struct{ applied }

// secret reports whether the value is marked as a whole.
func (m marked) secret() bool {
	return slices.ContainsFunc(m.schemas, func(s *jsonschema.Schema) bool { return s.WriteOnly })
}

// leads reports whether the value or something below it is marked.
func (m marked) leads() bool { return len(m.schemas) > 0 }

// key returns the marks of the value of a key.
func (m marked) key(key string) marked { return marked{m.applied.key(key)} }

// element returns the marks of the elements of a list.
func (m marked) element() marked { return marked{m.applied.element()} }

// step returns the marks of what an element of a path leads to. It may be a key or a place in a list, which a path
// does not distinguish, so both count.
func (m marked) step(element string) marked {
	return marked{applied{m.in, append(m.key(element).schemas, m.element().schemas...)}}
}

// stored reports whether a value belongs in the Secret as a whole: a marked one, or a list with a
// marked part, because the layer above replaces lists as a whole.
func (m marked) stored(value any) bool {
	_, list := value.([]any)
	return m.secret() || list && m.leads()
}

// Secrets determines which values of a section are secret: those that the schemas mark, those in
// the Secret, and those whose keys look like it.
type Secrets struct {
	section *Section
	marked  marked // in config-values.yaml and values.yaml, whichever layer a value comes from
}

// Secrets returns what is secret in the section.
func (s *Section) Secrets() Secrets { return Secrets{s, s.schemas.marks} }

// Marked reports whether the schema marks the value at a path with x-secret, or a part of it, or a
// list that contains it.
func (s Secrets) Marked(path []string) bool {
	m := s.marked
	for _, key := range path {
		if m.secret() || len(m.element().schemas) > 0 {
			return true
		}
		m = m.step(key)
	}
	return m.leads()
}

// Stored reports whether the Secret has a value at a path that wins over the ConfigMap: anything
// but a map, there or above it.
func (s Secrets) Stored(path []string) bool {
	tree := s.section.secret
	for _, key := range path {
		if !isMapOf(tree) {
			break
		}
		value, has := tree.(map[string]any)[key]
		if !has {
			return false
		}
		tree = value
		if tree == nil {
			return true // a null replaces, too
		}
	}
	return tree != nil && !isMapOf(tree)
}
