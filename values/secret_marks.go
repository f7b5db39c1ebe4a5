package values

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// secretKey marks a schema whose values are secrets: config patches of hooks store them in the
// Secret, and they are never shown (D41).
const secretKey = "x-secret"

// marks are the places below a value that its schema marks with x-secret. Recursive schemas have
// recursive marks. After compileMarks they are immutable and shared.
type marks struct {
	secret     bool // the value itself, with all below it
	leads      bool // it is marked, or something below it is
	properties map[string]*marks
	patterns   []patternMarks
	additional *marks // for keys that the schema does not name
	items      []*marks
}

type patternMarks struct {
	pattern *regexp.Regexp
	marks   *marks
}

// compileMarks collects the marks of a schema; nil when it has none. Unlike with defaults every
// branch counts, also those of anyOf and then: to hide a value without need costs less than to show
// a secret.
func compileMarks(root map[string]any) (*marks, error) {
	if !mentions(root, secretKey) {
		return nil, nil
	}
	c := marksCompiler{document: newSchemaDocument(root), known: map[string]*marks{}}
	top, err := c.compile([]string{""})
	if err != nil {
		return nil, err
	}
	// Recursive marks may lead to a marked value only through each other, hence the fixed point.
	for changed := true; changed; {
		changed = false
		for _, m := range c.known {
			if !m.leads && (m.secret || slices.ContainsFunc(m.children(), func(child *marks) bool { return child.leads })) {
				m.leads, changed = true, true
			}
		}
	}
	return top, nil
}

// marksCompiler has one marks for each set of places that describe one value, like
// defaultsCompiler.
type marksCompiler struct {
	document schemaDocument
	known    map[string]*marks
}

// compile collects the marks of one value in the given places.
func (c *marksCompiler) compile(ats []string) (*marks, error) {
	slices.Sort(ats)
	ats = slices.Compact(ats)
	name := strings.Join(ats, " ")
	if known, ok := c.known[name]; ok {
		return known, nil
	}
	m := &marks{}
	c.known[name] = m
	places, err := c.document.collectAll(ats, false)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		switch value := p.node[secretKey].(type) {
		case nil:
		case bool:
			m.secret = m.secret || value
		default:
			return nil, fmt.Errorf("%s: %s must be true or false, is %s", orRoot(p.at), secretKey, describe(value))
		}
	}
	children := childrenOf(places)
	for _, key := range sortedKeys(children) {
		child, err := c.compile(children[key])
		if err != nil {
			return nil, err
		}
		if err := m.adopt(key, child); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// adopt stores the marks of a child where they are looked up. The position of a list that a schema
// is for does not matter.
func (m *marks) adopt(name string, child *marks) error {
	path, err := splitPointer(name)
	if err != nil {
		return err
	}
	switch path[0] {
	case "properties":
		if m.properties == nil {
			m.properties = map[string]*marks{}
		}
		m.properties[path[1]] = child
	case "patternProperties":
		pattern, err := regexp.Compile(path[1])
		if err != nil {
			return fmt.Errorf("patternProperties: %w", err)
		}
		m.patterns = append(m.patterns, patternMarks{pattern, child})
	case "additionalProperties":
		m.additional = child
	case "items":
		m.items = append(m.items, child)
	}
	return nil
}

func (m *marks) children() []*marks {
	all := slices.Clone(m.items)
	for _, child := range m.properties {
		all = append(all, child)
	}
	for _, p := range m.patterns {
		all = append(all, p.marks)
	}
	if m.additional != nil {
		all = append(all, m.additional)
	}
	return all
}

// forKey returns the marks for a key: those that name it or, without any, those of
// additionalProperties.
func (m *marks) forKey(key string) []*marks {
	var found []*marks
	if child := m.properties[key]; child != nil {
		found = append(found, child)
	}
	for _, p := range m.patterns {
		if p.pattern.MatchString(key) {
			found = append(found, p.marks)
		}
	}
	if len(found) == 0 && m.additional != nil {
		found = append(found, m.additional)
	}
	return found
}

// marked are the marks of all schemas for one value. A value is secret if one of them marks it; an
// empty marked marks nothing.
type marked []*marks

// secret reports whether the value is marked as a whole.
func (m marked) secret() bool {
	return slices.ContainsFunc(m, func(one *marks) bool { return one.secret })
}

// leads reports whether the value or something below it is marked.
func (m marked) leads() bool {
	return slices.ContainsFunc(m, func(one *marks) bool { return one.leads })
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
