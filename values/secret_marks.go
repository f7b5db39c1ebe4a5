package values

import (
	"slices"

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

// step returns what speaks about what an element of a path leads to. It may be a key or a place in a list, which a path
// does not distinguish, so both count.
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
type Secrets struct {
	section *Section
	marked  applied // in config-values.yaml and values.yaml, whichever layer a value comes from
}

// Secrets returns what is secret in the section.
func (s *Section) Secrets() Secrets { return Secrets{s, s.schemas.marks} }

// Marked reports whether the schema marks the value at a path with x-secret, or a part of it, or a
// list that contains it.
func (s Secrets) Marked(path []string) bool {
	m := s.marked
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
