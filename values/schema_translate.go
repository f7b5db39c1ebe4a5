package values

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// translate rewrites an OpenAPI v3 schema into JSON Schema 2019-09 for the compiler. It follows the
// structure of the author's document, so that places in error messages stay the same; targets of
// $ref become definitions, and the result contains their original places.
//
// Draft 2019-09 has unevaluatedProperties, the only keyword that can close an object that several
// places describe.
func translate(root map[string]any, forHelm bool) (translation, error) {
	t := translator{
		document: newSchemaDocument(root),
		forHelm:  forHelm,
		names:    map[string]string{},
		defs:     map[string]any{},
		origins:  map[string]string{},
		costs:    map[string]int{},
		patterns: maxPatterns,
		keywords: keywords(),
		idle:     map[idleRule]bool{},
	}
	translated := t.schema("", mode{closed: true})
	if len(t.problems) > 0 {
		return translation{}, errors.Join(t.problems...)
	}
	if m, ok := translated.(map[string]any); ok && len(t.defs) > 0 {
		m["$defs"] = t.defs
	}
	return translation{translated, t.origins, t.costs, t.idleRules()}, nil
}

// translation is the result of translate.
type translation struct {
	schema  any
	origins map[string]string // name of a definition → place in the document
	costs   map[string]int    // of patterns, see patternCost
	idle    []idleRule
}

// translator is the state of one translation. It collects problems and continues, until there are too
// many (stopped).
type translator struct {
	document schemaDocument
	forHelm  bool              // x-required-for-helm counts as required (D33)
	names    map[string]string // what a definition was made from → its name
	defs     map[string]any
	origins  map[string]string // name of a definition → place in the document
	problems []error
	costs    map[string]int
	patterns int // instructions of patterns that may still be compiled
	wrong    int // keywords whose value is wrong
	stopped  bool
	keywords map[string]bool
	idle     map[idleRule]bool
	guesses  int // what unknown keys may mean
}

// fail collects problems, up to maxProblems. A schema that is too large ends the translation at
// once.
func (t *translator) fail(err error) {
	if t.stopped {
		return
	}
	t.problems = append(t.problems, err)
	if len(t.problems) == maxProblems {
		t.problems = append(t.problems, errTooMany)
	}
	t.stopped = len(t.problems) > maxProblems || errors.Is(err, errTooManyPlaces) || errors.Is(err, errTooManyPatterns)
}

// mode is how a schema treats keys that it does not have (D31). A schema is translated once for
// each mode in which it is used.
type mode struct {
	// closed: this schema, with its branches, is the only one for the value. It refuses
	// unknown keys.
	closed bool
	// open: something else closes the value and all below it.
	open bool
	// In a branch (neither closed nor open) these children are described elsewhere too and are left
	// open.
	shared map[string]bool
}

// String returns a text that differs for different modes; it is part of the names of definitions.
func (m mode) String() string {
	return fmt.Sprint(m.closed, m.open, strings.Join(sortedKeys(m.shared), ","))
}

// child returns the mode for a part of the value. Parts are closed by themselves, unless they are
// shared with other places.
func (m mode) child(name string) mode {
	if m.open || m.shared[name] {
		return mode{open: true}
	}
	return mode{closed: true}
}

func (t *translator) refuse(at, format string, args ...any) {
	t.fail(fmt.Errorf("%s: "+format, append([]any{orRoot(at)}, args...)...))
}

// verbatim are the keywords that mean the same in both dialects and hold no schemas.
func verbatim() []string {
	return []string{
		"type", "enum", "const", "format", "pattern", "required", "multipleOf", "minimum", "maximum",
		"minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
		"minProperties", "maxProperties", "dependentRequired",
	}
}

// schema translates the schema at a place. It leaves out unknown keywords, such as x- keys (D35). After a failure it may return an empty schema, because the result is discarded.
func (t *translator) schema(at string, m mode) any {
	if err := t.document.spend(at, perSchema); err != nil {
		t.fail(err)
	}
	if t.stopped {
		return map[string]any{}
	}
	node := t.node(at)
	switch node := node.(type) {
	case nil:
		return map[string]any{}
	case bool:
		return node
	case map[string]any:
		return t.object(place{at, node}, m)
	}
	t.refuse(at, "must be a schema, is %s", describe(node))
	return map[string]any{}
}

// node returns what is at a place, which may be no schema at all.
func (t *translator) node(at string) any {
	path, _ := splitPointer(at)
	node, _ := lookup(t.document.root, path)
	return node
}

// object translates keyword by keyword. If there is a shape to check in addition, the schema
// becomes a definition of its own, whose origin is the author's place, so that places in error
// messages are right.
func (t *translator) object(p place, m mode) any {
	t.look(p)
	out := map[string]any{}
	for _, keyword := range verbatim() {
		if value, ok := p.node[keyword]; ok {
			out[keyword] = value
			t.keyword(p, keyword, value)
		}
	}
	var shape any
	if m.closed {
		shape = t.close(out, p, &m)
	}
	t.bounds(out, p)
	t.required(out, p)
	t.parts(out, p, m)
	if shape == nil {
		t.branches(out, p, m)
		t.nullable(out, p)
		return out
	}
	main := t.define(p.at, "closed "+p.at, func() any {
		t.branches(out, p, m)
		t.nullable(out, p)
		return out
	})
	return map[string]any{"allOf": []any{map[string]any{"$ref": main}, shape}}
}

// bounds translates the boolean exclusiveMinimum of OpenAPI 3.0 into the number of JSON Schema.
func (t *translator) bounds(out map[string]any, p place) {
	for exclusive, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		switch value := p.node[exclusive].(type) {
		case nil:
		case bool:
			limit, ok := p.node[bound]
			if value && !ok {
				t.refuse(p.at, "%s: true needs %s", exclusive, bound)
			} else if value {
				out[exclusive] = limit
				delete(out, bound)
			}
		default:
			out[exclusive] = value
		}
	}
}

// required adds x-required-for-helm for the check before Helm (D33).
func (t *translator) required(out map[string]any, p place) {
	extra, present := p.node[requiredForHelmKey]
	if !present {
		return
	}
	if name, ok := extra.(string); ok {
		extra = []any{name}
	}
	names, ok := extra.([]any)
	for _, name := range names {
		_, isText := name.(string)
		ok = ok && isText
	}
	if !ok {
		t.refuse(p.at, "%s must be a key or a list of keys", requiredForHelmKey)
		return
	}
	if t.forHelm {
		out["required"] = union(slices.Clip(names), out["required"])
	}
}

// parts translates the subschemas for parts of the value.
func (t *translator) parts(out map[string]any, p place, m mode) {
	for _, keyword := range []string{"properties", "patternProperties"} {
		value, present := p.node[keyword]
		if !present {
			continue
		}
		named, ok := value.(map[string]any)
		if !ok && value != nil {
			t.refuse(p.below(keyword), "must be a map of schemas, is %s", describe(value))
			continue
		}
		translated := make(map[string]any, len(named))
		for _, name := range sortedKeys(named) {
			if keyword == "patternProperties" {
				t.pattern(name)
			}
			translated[name] = t.schema(p.below(keyword, name), m.child(pointer{keyword, name}.String()))
		}
		out[keyword] = translated
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		switch value := p.node[keyword].(type) {
		case nil:
		case []any:
			out[keyword] = t.list(p, keyword, func(i int) mode { return m.child(pointer{keyword, strconv.Itoa(i)}.String()) })
		case bool:
			out[keyword] = value
			if !value {
				out[keyword] = nothing()
			}
		default:
			out[keyword] = t.schema(p.below(keyword), m.child(pointer{keyword}.String()))
		}
	}
	for _, keyword := range []string{"contains", "propertyNames", "additionalItems", "unevaluatedProperties", "unevaluatedItems"} {
		if _, ok := p.node[keyword]; ok {
			out[keyword] = t.schema(p.below(keyword), mode{open: true})
		}
	}
}

// nothing returns a schema that no value fits. Unlike false, it makes the compiler report each
// unknown key at its own path.
func nothing() map[string]any { return map[string]any{"not": map[string]any{}} }

func (t *translator) list(p place, keyword string, modeOf func(i int) mode) []any {
	translated := []any{}
	for i := range length(p.node[keyword]) {
		translated = append(translated, t.schema(p.below(keyword, strconv.Itoa(i)), modeOf(i)))
	}
	return translated
}

// branches translates the subschemas that apply to the same value. They do not close it by
// themselves, because each has only some of the keys.
func (t *translator) branches(out map[string]any, p place, m mode) {
	branch := mode{open: m.open, shared: m.shared}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		switch value := p.node[keyword].(type) {
		case nil:
		case []any:
			out[keyword] = t.list(p, keyword, func(int) mode { return branch })
		default:
			t.refuse(p.below(keyword), "must be a list of schemas, is %s", describe(value))
		}
	}
	for keyword, mode := range map[string]mode{"not": {open: true}, "if": {open: true}, "then": branch, "else": branch} {
		if _, ok := p.node[keyword]; ok {
			out[keyword] = t.schema(p.below(keyword), mode)
		}
	}
	if dependent, ok := p.node["dependentSchemas"].(map[string]any); ok {
		translated := make(map[string]any, len(dependent))
		for _, name := range sortedKeys(dependent) {
			translated[name] = t.schema(p.below("dependentSchemas", name), branch)
		}
		out["dependentSchemas"] = translated
	}
	if _, ok := p.node["$ref"]; ok {
		target, err := t.document.reference(p)
		if err != nil {
			t.fail(err)
			return
		}
		out["$ref"] = t.define(target, target+" "+branch.String(), func() any { return t.schema(target, branch) })
	}
}

// define makes a definition, once for each text madeFrom, and returns the reference to it. The name
// is stored before the content is built, so schemas may be recursive.
func (t *translator) define(at, madeFrom string, build func() any) string {
	name, known := t.names[madeFrom]
	if !known {
		name = strconv.Itoa(len(t.names))
		t.names[madeFrom], t.origins[name] = name, at
		t.defs[name] = build()
	}
	return "#/$defs/" + name
}

// nullable allows null in addition to the values that the schema allows (OpenAPI 3.0). The branches
// move behind "if it is not null": each of them would have to allow null, too.
func (t *translator) nullable(out map[string]any, p place) {
	if p.node["nullable"] != true {
		return
	}
	switch types := out["type"].(type) {
	case string:
		out["type"] = []any{types, "null"}
	case []any:
		if !slices.Contains(types, any("null")) {
			out["type"] = append(slices.Clone(types), "null")
		}
	}
	if list, ok := out["enum"].([]any); ok && !slices.Contains(list, nil) {
		out["enum"] = append(slices.Clone(list), nil)
	}
	moved := map[string]any{}
	for _, keyword := range []string{"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"} {
		if value, ok := out[keyword]; ok {
			moved[keyword] = value
			delete(out, keyword)
		}
	}
	if len(moved) > 0 {
		maps.Copy(out, map[string]any{"if": map[string]any{"type": "null"}, "else": moved})
	}
}
