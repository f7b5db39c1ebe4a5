package values

import (
	"fmt"
	"slices"
)

// secretKey marks a schema whose values are secrets: config patches of hooks store them in the
// Secret, and they are never shown (D41).
const secretKey = "x-secret"

// compileMarks collects the marks of a schema; nil when it has none. Unlike with defaults every
// branch counts, also those of anyOf and then: to hide a value without need costs less than to show
// a secret. The position of a list that a schema is for does not matter.
func compileMarks(root map[string]any) (*annotations, error) {
	if !mentions(root, secretKey) {
		return nil, nil
	}
	all, err := compileAnnotations(root, false, func(a *annotations, p place) error {
		switch value := p.node[secretKey].(type) {
		case nil:
		case bool:
			a.has = a.has || value
		default:
			return fmt.Errorf("%s: %s must be true or false, is %s", orRoot(p.at), secretKey, describe(value))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// marked are the marks of all schemas for one value. A value is secret if one of them marks it; an
// empty marked marks nothing.
type marked []*annotations

// secret reports whether the value is marked as a whole.
func (m marked) secret() bool {
	return slices.ContainsFunc(m, func(one *annotations) bool { return one.has })
}

// leads reports whether the value or something below it is marked.
func (m marked) leads() bool {
	return slices.ContainsFunc(m, func(one *annotations) bool { return one.leads })
}

// key returns the marks of the value of a key.
func (m marked) key(key string) marked {
	var below marked
	for _, one := range m {
		below = append(below, one.forKey(key)...)
	}
	return below
}

// element returns the marks of the elements of a list.
func (m marked) element() marked {
	var below marked
	for _, one := range m {
		below = append(below, one.items...)
	}
	return below
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
	marked  marked // in config-values.yaml and values.yaml
}

// Secrets returns what is secret in the section. Both schemas count, whichever layer a value comes
// from.
func (s *Section) Secrets() Secrets {
	all := Secrets{section: s}
	for _, one := range []*schema{s.schemas.config, s.schemas.values} {
		if one != nil && one.marks != nil {
			all.marked = append(all.marked, one.marks)
		}
	}
	return all
}

// Marked reports whether the schema marks the value at a path with x-secret, or a part of it, or a
// list that contains it.
func (s Secrets) Marked(path []string) bool {
	m := s.marked
	for _, key := range path {
		if m.secret() || m.leads() && len(m.element()) > 0 {
			return true
		}
		m = append(m.key(key), m.element()...)
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
