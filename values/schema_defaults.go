package values

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// defaults are the default values of a schema, ready to be filled into a tree (D7, D34). Recursive schemas give recursive
// defaults.
type defaults struct {
	at         string
	value      any // the default of the value itself, with the defaults below it filled in; nil when there is none
	has        bool
	from       string // the schema that has it
	written    any    // the value without the defaults below it
	properties map[string]*defaults
	patterns   []patternDefaults
	additional *defaults // for keys that the schema does not name
	items      *defaults
	state      int // of completing value: untouched, completing or complete
	size       int // of value, and how deep it is, as measure has them
	depth      int
}

type patternDefaults struct {
	pattern *regexp.Regexp
	fill    *defaults
}

const (
	untouched = iota
	completing
	complete
)

// compileDefaults gathers the defaults of a schema; nil when it has none. Only what always applies counts: properties, items,
// allOf and $ref, not the alternatives of anyOf and oneOf.
func compileDefaults(root map[string]any) (*defaults, error) {
	c := defaultsCompiler{document: newSchemaDocument(root), known: map[string]*defaults{}}
	top, err := c.compile([]string{""})
	if err != nil {
		return nil, err
	}
	for _, d := range c.all {
		if err := d.complete(); err != nil {
			return nil, err
		}
	}
	if !c.prune()[top] {
		return nil, nil
	}
	return top, nil
}

type defaultsCompiler struct {
	document schemaDocument
	known    map[string]*defaults
	all      []*defaults
}

// compile gathers what the given places say about one value.
func (c *defaultsCompiler) compile(ats []string) (*defaults, error) {
	slices.Sort(ats)
	ats = slices.Compact(ats)
	name := strings.Join(ats, " ")
	if known, ok := c.known[name]; ok {
		return known, nil
	}
	d := &defaults{at: ats[0]}
	c.known[name] = d
	c.all = append(c.all, d)
	var places []place
	for _, at := range ats {
		found, err := c.document.collect(at, true)
		if err != nil {
			return nil, err
		}
		places = append(places, found...)
	}
	for _, p := range places {
		if value := p.node["default"]; value != nil && !d.has {
			d.value, d.has, d.from, d.written = value, true, p.at, value
		}
	}
	children := childrenOf(places)
	for _, key := range sortedKeys(children) {
		child, err := c.compile(children[key])
		if err != nil {
			return nil, err
		}
		if err := d.adopt(key, child); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// adopt hangs the defaults of a child where filling will look for them.
func (d *defaults) adopt(name string, child *defaults) error {
	path, err := splitPointer(name)
	if err != nil {
		return err
	}
	switch {
	case path[0] == "properties":
		if d.properties == nil {
			d.properties = map[string]*defaults{}
		}
		d.properties[path[1]] = child
	case path[0] == "patternProperties":
		pattern, err := regexp.Compile(path[1])
		if err != nil {
			return fmt.Errorf("%s: patternProperties: %w", orRoot(d.at), err)
		}
		d.patterns = append(d.patterns, patternDefaults{pattern, child})
	case path[0] == "additionalProperties":
		d.additional = child
	case path[0] == "items" && len(path) == 1:
		d.items = child
	}
	return nil
}

// complete fills the defaults below a default value into it. A default that needs itself would never end.
func (d *defaults) complete() error {
	switch {
	case d.state == completing:
		return fmt.Errorf("%s: the default of a recursive schema creates itself again without end", orRoot(d.at))
	case d.state == complete || !d.has:
		return nil
	}
	d.state = completing
	var failed error
	f := filler{left: maxSize, ready: func(child *defaults) {
		if err := child.complete(); err != nil && failed == nil {
			failed = err
		}
	}}
	size, depth := measure(d.value)
	d.value, _ = d.fillWith(d.value, &f)
	d.size, d.depth = size+maxSize-f.left, max(depth, f.deepest)
	d.state = complete
	switch {
	case failed != nil:
		return failed
	case d.size > maxSize:
		return fmt.Errorf("%s: the default with all defaults inside is larger than %d MiB", orRoot(d.at), maxSize>>20)
	case d.depth > maxDepth:
		return fmt.Errorf("%s: the default with all defaults inside: %w", orRoot(d.at), errTooDeep)
	}
	return nil
}

// prune cuts off everything below which there is no default, so that filling does not walk there, and returns what is left.
func (c *defaultsCompiler) prune() map[*defaults]bool {
	useful := map[*defaults]bool{}
	for changed := true; changed; {
		changed = false
		for _, d := range c.all {
			if !useful[d] && d.leadsTo(useful) {
				useful[d], changed = true, true
			}
		}
	}
	for _, d := range c.all {
		if !useful[d.items] {
			d.items = nil
		}
		if useful[d.additional] {
			continue // all names are needed: a key that is named somewhere must not fall through to additional
		}
		d.additional = nil
		maps.DeleteFunc(d.properties, func(_ string, child *defaults) bool { return !useful[child] })
		d.patterns = slices.DeleteFunc(d.patterns, func(p patternDefaults) bool { return !useful[p.fill] })
	}
	return useful
}

// leadsTo reports whether there is a default here or a step away from a useful one.
func (d *defaults) leadsTo(useful map[*defaults]bool) bool {
	for _, child := range d.properties {
		if useful[child] {
			return true
		}
	}
	return d.has || useful[d.items] || useful[d.additional] ||
		slices.ContainsFunc(d.patterns, func(p patternDefaults) bool { return useful[p.fill] })
}

// orDefault gives the default of the whole section when no layer has it. A section always exists: without a default of its
// own it is an empty map, when there are defaults of keys to fill into it.
func (d *defaults) orDefault(tree any) any {
	switch {
	case tree != nil || d == nil:
		return tree
	case d.has:
		return d.value
	case slices.ContainsFunc(slices.Collect(maps.Values(d.properties)), func(p *defaults) bool { return p.has }):
		return map[string]any{}
	}
	return tree
}

// fill adds missing values to a tree that is there; what is there already, null included, stays. The tree is not changed;
// when nothing is missing it is given back as it is. Defaults that would add more than 16 MiB, for a long list with many defaults
// for each element, are an error (D39).
func (d *defaults) fill(tree any) (any, error) {
	if d == nil {
		return tree, nil
	}
	f := filler{left: maxFilled, ready: func(*defaults) {}}
	filled, _ := d.fillWith(tree, &f)
	if f.left < 0 {
		return tree, errTooFilled
	}
	return filled, nil
}

// refill fills a tree as it was filled when its section was made, so that it cannot be too much.
func (d *defaults) refill(tree any) any {
	filled, _ := d.fill(tree)
	return filled
}

// filler is one walk with defaults through a tree.
type filler struct {
	ready   func(*defaults) // is called before the default of a child is used
	left    int             // bytes that may still be added, as measure counts them
	level   int             // lists and maps around the place of the walk
	deepest int             // of what was added
}

// take reports whether a default may be added under a key.
func (f *filler) take(key string, child *defaults) bool {
	if f.left < 0 {
		return false
	}
	f.ready(child)
	f.left -= overhead + len(key) + child.size
	f.deepest = max(f.deepest, f.level+child.depth)
	return f.left >= 0
}

// fillWith also reports whether anything was missing.
func (d *defaults) fillWith(tree any, f *filler) (any, bool) {
	f.level++
	defer func() { f.level-- }()
	switch v := tree.(type) {
	case map[string]any:
		return d.fillMap(v, f)
	case []any:
		return d.fillList(v, f)
	}
	return tree, false
}

// fillMap fills first what is there, then adds what is missing: defaults that are added are complete already.
func (d *defaults) fillMap(m map[string]any, f *filler) (any, bool) {
	var filled map[string]any // a copy, made at the first change
	set := func(key string, value any) {
		if filled == nil {
			filled = maps.Clone(m)
		}
		filled[key] = value
	}
	for key, value := range m {
		for _, child := range d.forKey(key) {
			if changed, some := child.fillWith(value, f); some {
				value = changed
				set(key, value)
			}
		}
	}
	for key, child := range d.properties {
		if _, present := m[key]; !present && child.has && f.take(key, child) {
			set(key, child.value)
		}
	}
	if filled == nil {
		return m, false
	}
	return filled, true
}

// forKey gives the defaults that speak about the value of a key.
func (d *defaults) forKey(key string) []*defaults {
	child := d.properties[key]
	if child == nil && d.patterns == nil && d.additional == nil {
		return nil
	}
	var found []*defaults
	if child != nil {
		found = append(found, child)
	}
	for _, p := range d.patterns {
		if p.pattern.MatchString(key) {
			found = append(found, p.fill)
		}
	}
	if len(found) == 0 && d.additional != nil {
		found = append(found, d.additional)
	}
	return found
}

func (d *defaults) fillList(list []any, f *filler) (any, bool) {
	if d.items == nil {
		return list, false
	}
	var filled []any // a copy, made at the first change
	for i, element := range list {
		changed, some := d.items.fillWith(element, f)
		if !some {
			continue
		}
		if filled == nil {
			filled = slices.Clone(list)
		}
		filled[i] = changed
	}
	if filled == nil {
		return list, false
	}
	return filled, true
}
