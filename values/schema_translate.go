package values

import (
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// maxSchema bounds what is made of a schema, in bytes: pointers to its places, 64 for each place, counting each way
// through branches and $ref that leads to it, and 40 for each instruction of its patterns. Schemas are files of modules,
// like hooks: the limit only keeps a mistake from filling the memory (D39).
const maxSchema = 32 << 20

// translation is the result of translate.
type translation struct {
	schema  any
	origins map[string]string // name of a definition → place in the document
}

// translate rewrites an OpenAPI v3 schema into JSON Schema 2019-09 for the compiler. It follows the structure of the
// author's document, so that places in error messages stay the same; targets of $ref become definitions.
//
// Draft 2019-09 has unevaluatedProperties, the only keyword that can close an object that several places describe.
func translate(root map[string]any, forHelm bool) (translation, error) {
	t := translator{
		root: root, forHelm: forHelm, names: map[string]string{}, defs: map[string]any{}, left: maxSchema,
		translation: translation{origins: map[string]string{}},
	}
	t.translation.schema = t.schema("", mode{closed: true})
	if len(t.problems) > 0 {
		return translation{}, errors.Join(t.problems...)
	}
	if m, ok := t.translation.schema.(map[string]any); ok && len(t.defs) > 0 {
		m["$defs"] = t.defs
	}
	return t.translation, nil
}

// translator is the state of one translation. It collects problems, up to maxProblems.
type translator struct {
	translation
	root     map[string]any
	forHelm  bool              // x-required-for-helm counts as required (D33)
	names    map[string]string // what a definition was made from → its name
	defs     map[string]any
	problems []error
	left     int // of maxSchema
	stopped  bool
}

func (t *translator) refuse(at, format string, args ...any) {
	if t.stopped {
		return
	}
	t.problems = append(t.problems, fmt.Errorf("%s: "+format, append([]any{orRoot(at)}, args...)...))
	if t.stopped = len(t.problems) > maxProblems; t.stopped {
		t.problems[maxProblems] = errTooMany
	}
}

// spend counts bytes, and reports whether the translation may go on.
func (t *translator) spend(bytes int) bool {
	if t.left -= bytes; t.left < 0 && !t.stopped {
		t.stopped, t.problems = true, append(t.problems, errors.New("the schema is too large: it describes too many places, counting each branch and $ref that leads to them, or its patterns repeat too much"))
	}
	return !t.stopped
}

// mode is how a schema treats keys that it does not have (D31). A schema is translated once for each mode in which it
// is used.
type mode struct {
	// closed: this schema, with its branches, is the only one for the value. It refuses unknown keys.
	closed bool
	// open: something else closes the value and all below it.
	open bool
	// In a branch (neither closed nor open) these children are described elsewhere too and are left open.
	shared map[string]bool
}

// String returns a text that differs for different modes; it is part of the names of definitions.
func (m mode) String() string {
	return fmt.Sprint(m.closed, m.open, strings.Join(sortedKeys(m.shared), ","))
}

// child returns the mode for a part of the value. Parts are closed by themselves, unless they are shared.
func (m mode) child(elements ...string) mode {
	if m.open || m.shared[JSONPointer(elements...)] {
		return mode{open: true}
	}
	return mode{closed: true}
}

// verbatim are the keywords that mean the same in both dialects and hold no schemas.
func verbatim() []string {
	return []string{
		"type", "enum", "const", "format", "pattern", "required", "multipleOf", "minimum", "maximum",
		"minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
		"minProperties", "maxProperties", "dependentRequired", "default",
	}
}

// place is a schema inside of the document, at a JSON pointer. node is nil for anything that is no map.
type place struct {
	at   string
	node map[string]any
}

// below returns the place of a keyword's subschema.
func (p place) below(elements ...string) string { return p.at + JSONPointer(elements...) }

func orRoot(at string) string {
	if at == "" {
		return "/"
	}
	return at
}

// schema translates the schema at a place. It leaves out unknown keywords, such as x- keys (D35). After a failure it
// may return an empty schema, because the result is discarded.
func (t *translator) schema(at string, m mode) any {
	if !t.spend(len(at) + 64) {
		return map[string]any{}
	}
	node, _ := At(t.root, at)
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

// object translates keyword by keyword. If there is a shape to check in addition, the schema becomes a definition of
// its own, whose origin is the author's place, so that places in error messages are right.
func (t *translator) object(p place, m mode) any {
	out := map[string]any{}
	for _, keyword := range verbatim() {
		if value, ok := p.node[keyword]; ok {
			out[keyword] = value
		}
	}
	if pattern, ok := out["pattern"].(string); ok {
		t.spend(40 * patternCost(pattern))
	}
	var shape any
	if m.closed {
		shape = t.close(out, p, &m)
	}
	t.dialect(out, p)
	t.parts(out, p, m)
	if shape == nil {
		t.branches(out, p, m)
		return out
	}
	main := t.define(p.at, "closed "+p.at, func() any { t.branches(out, p, m); return out })
	return map[string]any{"allOf": []any{map[string]any{"$ref": main}, shape}}
}

// dialect translates the boolean exclusiveMinimum of OpenAPI 3.0 into the number of JSON Schema, adds
// x-required-for-helm for the check before Helm (D33), and marks secrets (D41) with the annotation that the library
// keeps.
func (t *translator) dialect(out map[string]any, p place) {
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
	switch value := p.node[secretKey].(type) {
	case nil:
	case bool:
		out["writeOnly"] = value
	default:
		t.refuse(p.at, "%s must be true or false, is %s", secretKey, describe(value))
	}
	names := p.node[requiredForHelmKey]
	if name, ok := names.(string); ok {
		names = []any{name}
	}
	list, ok := names.([]any)
	if slices.ContainsFunc(list, func(name any) bool { _, ok := name.(string); return !ok }) || names != nil && !ok {
		t.refuse(p.at, "%s must be a key or a list of keys", requiredForHelmKey)
	} else if t.forHelm && ok {
		out["required"] = union(list, out["required"])
	}
}

// parts translates the subschemas for parts of the value.
func (t *translator) parts(out map[string]any, p place, m mode) {
	for _, keyword := range []string{"properties", "patternProperties"} {
		value, present := p.node[keyword]
		named, ok := value.(map[string]any)
		if !ok && value != nil {
			t.refuse(p.below(keyword), "must be a map of schemas, is %s", describe(value))
		}
		if !ok && (value != nil || !present) {
			continue
		}
		translated := make(map[string]any, len(named))
		for _, name := range sortedKeys(named) {
			if keyword == "patternProperties" {
				t.spend(40 * patternCost(name))
			}
			translated[name] = t.schema(p.below(keyword, name), m.child(keyword, name))
		}
		out[keyword] = translated
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		switch value := p.node[keyword].(type) {
		case nil:
		case []any:
			out[keyword] = t.list(p, keyword, func(i int) mode { return m.child(keyword, strconv.Itoa(i)) })
		case bool:
			out[keyword] = value
			if !value {
				out[keyword] = nothing()
			}
		default:
			out[keyword] = t.schema(p.below(keyword), m.child(keyword))
		}
	}
	for _, keyword := range []string{"contains", "propertyNames", "additionalItems", "unevaluatedProperties", "unevaluatedItems"} {
		if _, ok := p.node[keyword]; ok {
			out[keyword] = t.schema(p.below(keyword), mode{open: true})
		}
	}
}

// nothing returns a schema that no value fits. Unlike false, it makes the compiler report each unknown key at its own
// path.
func nothing() map[string]any { return map[string]any{"not": map[string]any{}} }

func (t *translator) list(p place, keyword string, modeOf func(i int) mode) []any {
	translated := []any{}
	for i := range length(p.node[keyword]) {
		translated = append(translated, t.schema(p.below(keyword, strconv.Itoa(i)), modeOf(i)))
	}
	return translated
}

func length(v any) int {
	list, _ := v.([]any)
	return len(list)
}

// branches translates the subschemas that apply to the same value. They do not close it by themselves, because each
// has only some of the keys. nullable allows null in addition (OpenAPI 3.0): the branches move behind "if it is not
// null", because each of them would have to allow null, too.
func (t *translator) branches(out map[string]any, p place, m mode) {
	branch, found := mode{open: m.open, shared: m.shared}, map[string]any{}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		switch value := p.node[keyword].(type) {
		case nil:
		case []any:
			found[keyword] = t.list(p, keyword, func(int) mode { return branch })
		default:
			t.refuse(p.below(keyword), "must be a list of schemas, is %s", describe(value))
		}
	}
	for keyword, mode := range map[string]mode{"not": {open: true}, "if": {open: true}, "then": branch, "else": branch} {
		if _, ok := p.node[keyword]; ok {
			found[keyword] = t.schema(p.below(keyword), mode)
		}
	}
	if target, ok := t.reference(p); ok {
		found["$ref"] = t.define(target, target+" "+branch.String(), func() any { return t.schema(target, branch) })
	}
	if dependent, ok := p.node["dependentSchemas"].(map[string]any); ok {
		translated := make(map[string]any, len(dependent))
		for _, name := range sortedKeys(dependent) {
			translated[name] = t.schema(p.below("dependentSchemas", name), branch)
		}
		out["dependentSchemas"] = translated
	}
	if p.node["nullable"] == true {
		switch types := out["type"].(type) {
		case string:
			out["type"] = []any{types, "null"}
		case []any:
			out["type"] = union(types, []any{"null"})
		}
		if list, ok := out["enum"].([]any); ok {
			out["enum"] = union(list, []any{nil})
		}
		if len(found) > 0 {
			found = map[string]any{"if": map[string]any{"type": "null"}, "else": found}
		}
	}
	maps.Copy(out, found)
}

// reference returns the place that a $ref points to. It must exist, and be in the same file (D30).
func (t *translator) reference(p place) (string, bool) {
	value, present := p.node["$ref"]
	if !present {
		return "", false
	}
	ref, ok := value.(string)
	target, local := strings.CutPrefix(ref, "#")
	_, exists := At(t.root, target)
	switch {
	case !ok:
		t.refuse(p.below("$ref"), "must be a string")
	case !local:
		t.refuse(p.below("$ref"), "%q refers to another file; only references such as #/definitions/name are supported", ref)
	case !exists:
		t.refuse(p.below("$ref"), "there is no %q", ref)
	}
	return target, ok && local && exists
}

// define makes a definition, once for each text madeFrom, and returns the reference to it. The name is stored before
// the content is built, so schemas may be recursive.
func (t *translator) define(at, madeFrom string, build func() any) string {
	name, known := t.names[madeFrom]
	if !known {
		name = strconv.Itoa(len(t.names))
		t.names[madeFrom], t.origins[name] = name, at
		t.defs[name] = build()
	}
	return "#/$defs/" + name
}

// patternCost returns about how many instructions the program of a pattern has. Only repetitions turn a few characters
// into many instructions, so only patterns with one are parsed.
func patternCost(pattern string) int {
	cost := 2 + 2*len(pattern)
	if !strings.Contains(pattern, "{") {
		return cost
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return cost // the compiler reports it
	}
	return instructions(parsed)
}

// instructions counts those of a parsed pattern without writing its repetitions out.
func instructions(re *syntax.Regexp) int {
	cost := 2 + len(re.Rune)
	for _, sub := range re.Sub {
		cost += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		cost *= max(re.Min, re.Max, 1)
	}
	return cost
}
