package values

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// defaults are the default values of one value and of all parts of it, ready to be filled into a
// tree (D7, D34). Recursive schemas have recursive defaults. After compileDefaults they are
// immutable and shared.
type defaults struct {
	// at is the place that names the value in errors.
	at         string
	value      any // the default of the value itself, with the defaults below it filled in; nil when there is none
	has        bool
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

// The states of completing a default: a default that is met while it is completing contains itself.
const (
	untouched = iota
	completing
	complete
)

// compileDefaults collects the defaults of a schema; nil when it has none. Only keywords that
// always apply count: properties, items, allOf and $ref, not the alternatives of anyOf and oneOf,
// because which of them applies depends on the value to be completed. written are the
// defaults by their places, without those below them.
func compileDefaults(root map[string]any) (top *defaults, written map[string]any, err error) {
	c := defaultsCompiler{document: newSchemaDocument(root), known: map[string]*defaults{}, written: map[string]any{}}
	if top, err = c.compile([]string{""}); err != nil {
		return nil, nil, err
	}
	for _, d := range c.all {
		if err := d.complete(); err != nil {
			return nil, nil, err
		}
	}
	if !c.prune()[top] {
		return nil, nil, nil
	}
	return top, c.written, nil
}

// defaultsCompiler has one defaults for each set of places that describe one value (known, by their
// sorted names), so that recursive schemas come to an end. all lists them in the order of their
// creation.
type defaultsCompiler struct {
	document schemaDocument
	known    map[string]*defaults
	all      []*defaults
	written  map[string]any
}

// compile collects the defaults of one value in the given places. The first default in the order of the
// places wins. A null is no default.
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
	places, err := c.document.collectAll(ats, true)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		value := p.node["default"]
		if value == nil {
			continue
		}
		c.written[p.at] = value
		if !d.has {
			d.value, d.has = value, true
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

// adopt stores the defaults of a child where fill looks for them. Defaults for single positions of
// a list are ignored.
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

// complete fills the defaults below a default value into it, first those of the defaults that it
// uses itself. A default that contains itself would never end, which is an error of the schema; so
// is one that is larger than a section may be.
func (d *defaults) complete() error {
	switch {
	case d.state == completing:
		return fmt.Errorf("%s: the default of a recursive schema expands without end", orRoot(d.at))
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

// prune removes everything below which there is no default, so that fill does not walk there, and
// returns the remaining defaults. Recursive ones may lead to a default only through themselves,
// hence the fixed point.
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

// leadsTo reports whether there is a default here, or one step away in a useful one.
func (d *defaults) leadsTo(useful map[*defaults]bool) bool {
	for _, child := range d.properties {
		if useful[child] {
			return true
		}
	}
	return d.has || useful[d.items] || useful[d.additional] ||
		slices.ContainsFunc(d.patterns, func(p patternDefaults) bool { return useful[p.fill] })
}

// orDefault returns the default of the whole section if no layer has it. A section always exists:
// without a default of its own it is an empty map if there are defaults of keys to fill into it.
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

// fill adds missing values to a tree; what exists, null included, stays. The tree is not changed;
// if nothing is missing it is returned as it is. An error means that the defaults would add more
// than 16 MiB, as for a long list with many defaults for each element (D39). nil defaults add
// nothing.
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

// refill is fill for a tree that was filled when its section was made: its size was checked then.
func (d *defaults) refill(tree any) any {
	filled, _ := d.fill(tree)
	return filled
}

// filler is one walk through a tree that fills in defaults. When left is used up, the walk adds
// nothing more, and its result is discarded.
type filler struct {
	ready   func(*defaults) // is called before the default of a child is used
	left    int             // bytes that may still be added, as measure counts them
	level   int             // lists and maps around the place of the walk
	deepest int             // of what was added
}

// take reports whether a default may be added under a key, and counts it.
func (f *filler) take(key string, child *defaults) bool {
	if f.left < 0 {
		return false
	}
	f.ready(child)
	f.left -= overhead + len(key) + child.size
	f.deepest = max(f.deepest, f.level+child.depth)
	return f.left >= 0
}

// fillWith returns the filled tree, and whether anything was missing.
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

// fillMap fills the existing values first and then adds the missing ones, which must not be filled
// again: they are complete.
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

// forKey returns the defaults for the value of a key, by the rule of JSON Schema:
// additionalProperties count only for keys that nothing else names.
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
