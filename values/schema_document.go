package values

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// schemaDocument finds places in a schema as its author wrote it. Places are JSON pointers. Copies
// share the budget.
type schemaDocument struct {
	root map[string]any
	left *int // bytes of places that may still be looked at
}

// maxPlaces bounds the work on one schema, in bytes of the pointers to its places and of what is
// made of them. It is enough for 25,000 schemas (D39). Without it a small file could describe more
// than there is memory: the keys of several branches are combined for each set of branches, and a
// definition is translated for each mode in which it is used (D31).
const maxPlaces = 32 << 20

var errTooManyPlaces = errors.New("the schema is too large: it describes too many places, counting each branch and $ref that leads to them")

func newSchemaDocument(root map[string]any) schemaDocument {
	left := maxPlaces
	return schemaDocument{root, &left}
}

// spend counts a place, and the bytes of what is made of it.
func (d schemaDocument) spend(at string, bytes int) error {
	if *d.left -= len(at) + bytes; *d.left < 0 {
		return errTooManyPlaces
	}
	return nil
}

// place is a schema inside of the document. node is nil for a boolean, and for anything else that
// is no map.
type place struct {
	at   string
	node map[string]any
}

// at returns the place that a pointer leads to.
func (d schemaDocument) at(text string) (place, bool) {
	node, ok := At(d.root, text)
	if !ok {
		return place{}, false
	}
	schema, _ := node.(map[string]any)
	return place{text, schema}, true
}

// below returns the place of a keyword's subschema.
func (p place) below(elements ...string) string {
	return p.at + pointer(elements).String()
}

// reference returns the place that a $ref points to. It must exist, and be in the same file (D30).
func (d schemaDocument) reference(p place) (string, error) {
	ref, ok := p.node["$ref"].(string)
	if !ok {
		return "", fmt.Errorf("%s/$ref: must be a string", p.at)
	}
	target, local := strings.CutPrefix(ref, "#")
	if !local {
		return "", fmt.Errorf("%s/$ref: %q refers to another file; only references such as #/definitions/name are supported", p.at, ref)
	}
	if _, ok := d.at(target); !ok {
		return "", fmt.Errorf("%s/$ref: there is no %q", p.at, ref)
	}
	return target, nil
}

// applicators are the keywords whose subschemas apply to the same value as the schema that contains
// them.
type applicators struct {
	always      []string // allOf and $ref
	conditional []string // anyOf, oneOf, then, else, dependentSchemas
}

// applicators returns the places of those subschemas. not and if are left out: they do not describe
// the value, they only test it.
func (d schemaDocument) applicators(p place) (applicators, error) {
	var found applicators
	if _, ok := p.node["$ref"]; ok {
		target, err := d.reference(p)
		if err != nil {
			return found, err
		}
		found.always = append(found.always, target)
	}
	for i := range length(p.node["allOf"]) {
		found.always = append(found.always, p.below("allOf", strconv.Itoa(i)))
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		for i := range length(p.node[keyword]) {
			found.conditional = append(found.conditional, p.below(keyword, strconv.Itoa(i)))
		}
	}
	for _, keyword := range []string{"then", "else"} {
		if _, ok := p.node[keyword]; ok {
			found.conditional = append(found.conditional, p.below(keyword))
		}
	}
	if dependent, ok := p.node["dependentSchemas"].(map[string]any); ok {
		for _, name := range sortedKeys(dependent) {
			found.conditional = append(found.conditional, p.below("dependentSchemas", name))
		}
	}
	return found, nil
}

func length(v any) int {
	list, _ := v.([]any)
	return len(list)
}

// collect returns a place and all others that apply to the same value: all of them, or only those
// that always apply. A place that is reached in several ways counts once; one that is reached from
// itself is an error, because a check of a value would never end.
func (d schemaDocument) collect(start string, onlyAlways bool) ([]place, error) {
	var (
		found []place
		open  = map[string]bool{} // on the way from start to here
		done  = map[string]bool{}
		visit func(at string) error
	)
	visit = func(at string) error {
		if open[at] {
			return fmt.Errorf("%s: refers to itself without a property in between", orRoot(at))
		}
		if done[at] {
			return nil
		}
		open[at], done[at] = true, true
		defer delete(open, at)
		p, ok := d.at(at)
		if !ok {
			return fmt.Errorf("%s: there is no such place", orRoot(at))
		}
		found = append(found, p)
		const perChild = 64
		if err := d.spend(at, (perChild+len(at))*(1+p.named("properties")+p.named("patternProperties"))); err != nil {
			return err
		}
		next, err := d.applicators(p)
		if err != nil {
			return err
		}
		targets := next.always
		if !onlyAlways {
			targets = append(targets, next.conditional...)
		}
		for _, target := range targets {
			if err := visit(target); err != nil {
				return err
			}
		}
		return nil
	}
	return found, visit(start)
}

// collectAll is collect for several places that describe one value.
func (d schemaDocument) collectAll(starts []string, onlyAlways bool) ([]place, error) {
	var all []place
	for _, at := range starts {
		found, err := d.collect(at, onlyAlways)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func orRoot(at string) string {
	if at == "" {
		return "/"
	}
	return at
}

// children returns the places of the subschemas for parts of the value, by the keyword and name
// that lead to them: "/properties/a", "/patternProperties/^x", "/items", "/items/0",
// "/additionalProperties".
func (p place) children() map[string]string {
	found := map[string]string{}
	for _, keyword := range []string{"properties", "patternProperties"} {
		named, _ := p.node[keyword].(map[string]any)
		for name := range named {
			found[pointer{keyword, name}.String()] = p.below(keyword, name)
		}
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if _, ok := p.node[keyword].(map[string]any); ok {
			found[pointer{keyword}.String()] = p.below(keyword)
		}
	}
	for i := range length(p.node["items"]) {
		found[pointer{"items", strconv.Itoa(i)}.String()] = p.below("items", strconv.Itoa(i))
	}
	return found
}

// named returns the number of schemas below a keyword that holds a map of them.
func (p place) named(keyword string) int {
	schemas, _ := p.node[keyword].(map[string]any)
	return len(schemas)
}

// declares reports whether a schema names properties, so that others can be unknown (X28).
func (p place) declares() bool {
	return p.named("properties") > 0 || p.named("patternProperties") > 0
}
