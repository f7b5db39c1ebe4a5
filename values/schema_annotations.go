package values

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// annotations are what a schema says about one value and all parts of it without allowing or refusing anything: the
// defaults (D7, D34), or that values are secrets (D41). Recursive schemas have recursive annotations. After they are
// compiled they are immutable and shared.
type annotations struct {
	at         string // the place that names the value in errors
	has        bool   // the value itself is annotated
	leads      bool   // it is, or something below it
	value      any    // the default
	complete   bool   // value has the defaults below it filled in
	properties map[string]*annotations
	patterns   []patternAnnotations
	additional *annotations // for keys that the schema does not name
	items      []*annotations
}

type patternAnnotations struct {
	pattern *regexp.Regexp
	below   *annotations
}

// annotationsCompiler has one annotations for each set of places that describe one value (known, by their sorted
// names), so that recursive schemas come to an end. all lists them in the order of their creation.
type annotationsCompiler struct {
	document   schemaDocument
	onlyAlways bool // only keywords that always apply count, and no positions of lists
	read       func(a *annotations, p place) error
	known      map[string]*annotations
	all        []*annotations
}

// compileAnnotations returns the annotations of a schema, first those of the whole value. read adds what one place
// says.
func compileAnnotations(
	root map[string]any, onlyAlways bool, read func(*annotations, place) error,
) ([]*annotations, error) {
	c := annotationsCompiler{newSchemaDocument(root), onlyAlways, read, map[string]*annotations{}, nil}
	if _, err := c.compile([]string{""}); err != nil {
		return nil, err
	}
	// Recursive ones may lead to an annotation only through each other, hence the fixed point.
	for changed := true; changed; {
		changed = false
		for _, a := range slices.Backward(c.all) {
			if !a.leads && (a.has || a.anyBelow(func(below *annotations) bool { return below.leads })) {
				a.leads, changed = true, true
			}
		}
	}
	return c.all, nil
}

// compile collects the annotations of one value in the given places.
func (c *annotationsCompiler) compile(ats []string) (*annotations, error) {
	slices.Sort(ats)
	ats = slices.Compact(ats)
	name := strings.Join(ats, " ")
	if known, ok := c.known[name]; ok {
		return known, nil
	}
	a := &annotations{at: ats[0]}
	c.known[name] = a
	c.all = append(c.all, a)
	places, err := c.document.collectAll(ats, c.onlyAlways)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		if err := c.read(a, p); err != nil {
			return nil, err
		}
	}
	children := childrenOf(places)
	for _, key := range sortedKeys(children) {
		below, err := c.compile(children[key])
		if err == nil {
			err = c.adopt(a, key, below)
		}
		if err != nil {
			return nil, err
		}
	}
	return a, nil
}

// adopt stores the annotations of a part where they are looked up.
func (c *annotationsCompiler) adopt(a *annotations, name string, below *annotations) error {
	path, err := splitPointer(name)
	if err != nil {
		return err
	}
	switch path[0] {
	case "properties":
		if a.properties == nil {
			a.properties = map[string]*annotations{}
		}
		a.properties[path[1]] = below
	case "patternProperties":
		pattern, err := regexp.Compile(path[1])
		if err != nil {
			return fmt.Errorf("%s: patternProperties: %w", orRoot(a.at), err)
		}
		a.patterns = append(a.patterns, patternAnnotations{pattern, below})
	case "additionalProperties":
		a.additional = below
	case "items":
		if len(path) == 1 || !c.onlyAlways {
			a.items = append(a.items, below)
		}
	}
	return nil
}

// anyBelow reports whether something is true for one of the parts.
func (a *annotations) anyBelow(is func(*annotations) bool) bool {
	for _, below := range a.properties {
		if is(below) {
			return true
		}
	}
	return a.additional != nil && is(a.additional) || slices.ContainsFunc(a.items, is) ||
		slices.ContainsFunc(a.patterns, func(p patternAnnotations) bool { return is(p.below) })
}

// forKey returns the annotations of the value of a key that lead somewhere, by the rule of JSON Schema:
// additionalProperties count only for keys that nothing else names.
func (a *annotations) forKey(key string) (found []*annotations) {
	named := false
	add := func(below *annotations) {
		named = true
		if below.leads {
			found = append(found, below)
		}
	}
	if below := a.properties[key]; below != nil {
		add(below)
	}
	for _, p := range a.patterns {
		if p.pattern.MatchString(key) {
			add(p.below)
		}
	}
	if !named && a.additional != nil {
		add(a.additional)
	}
	return found
}
