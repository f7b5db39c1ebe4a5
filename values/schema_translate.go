package values

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// translate rewrites an OpenAPI v3 schema into JSON Schema 2019-09 for the compiler. Each schema stays at its place
// in the author's document, so the places in error messages are those of the author. It leaves out unknown keywords,
// such as x- keys (D35).
func translate(root map[string]any, forHelm bool) (any, error) {
	t := translator{forHelm: forHelm, references: map[string]string{}}
	out := t.schema("", root)
	for _, at := range sortedKeys(t.references) {
		path, err := splitPointer(t.references[at])
		if _, found := lookup(out, path); err != nil || !found {
			t.refuse(at, "there is no schema %q; write it below definitions", "#"+t.references[at])
		}
	}
	return out, joined(t.problems)
}

// translator is the state of one translation.
type translator struct {
	forHelm    bool              // x-required-for-helm counts as required (D33)
	references map[string]string // where a $ref stands, and where it points to
	problems   []error
}

func (t *translator) refuse(at, format string, args ...any) {
	t.problems = append(t.problems, fmt.Errorf("%s: "+format, append([]any{cmp.Or(at, "/")}, args...)...))
}

// The keywords that are translated, by what they hold. Verbatim ones mean the same in both dialects and hold no
// schemas.
//
//nolint:gochecknoglobals // lists
var (
	verbatim = []string{
		"type", "enum", "const", "format", "pattern", "required", "multipleOf", "minimum", "maximum",
		"minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
		"minProperties", "maxProperties", "dependentRequired", "default",
	}
	oneSchema = []string{
		"items", "additionalProperties", "contains", "propertyNames", "unevaluatedProperties",
		"unevaluatedItems", "not", "if", "then", "else",
	}
	listsOfSchemas = []string{"allOf", "anyOf", "oneOf"}
	mapsOfSchemas  = []string{"properties", "patternProperties", "dependentSchemas", "definitions", "$defs"}
)

// schema translates the schema at a place, a JSON pointer.
func (t *translator) schema(at string, node any) any {
	switch node := node.(type) {
	case nil:
		return map[string]any{}
	case bool:
		return node
	case map[string]any:
		return t.object(at, node)
	}
	t.refuse(at, "must be a schema, is %s", describe(node))
	return nil
}

func (t *translator) object(at string, node map[string]any) any {
	out := map[string]any{}
	for _, keyword := range verbatim {
		if value, ok := node[keyword]; ok {
			out[keyword] = value
		}
	}
	for _, keyword := range oneSchema {
		switch value, ok := node[keyword]; {
		case !ok:
		case value == false && strings.HasSuffix(keyword, "Properties"):
			// Unlike false, this makes the library report each unknown key at its own path.
			out[keyword] = map[string]any{"not": map[string]any{}}
		default:
			out[keyword] = t.schema(at+JSONPointer(keyword), value)
		}
	}
	for _, keyword := range listsOfSchemas {
		if value := node[keyword]; value != nil {
			out[keyword] = t.list(at, keyword, value)
		}
	}
	for _, keyword := range mapsOfSchemas {
		if value, ok := node[keyword]; ok {
			out[keyword] = t.named(at, keyword, value)
		}
	}
	t.reference(out, at, node)
	t.dialect(out, at, node)
	if node["nullable"] == true {
		allowNull(out)
	}
	return out
}

func (t *translator) list(at, keyword string, value any) any {
	list, ok := value.([]any)
	if !ok {
		return value // the library refuses it
	}
	translated := make([]any, len(list))
	for i, one := range list {
		translated[i] = t.schema(at+JSONPointer(keyword, strconv.Itoa(i)), one)
	}
	return translated
}

func (t *translator) named(at, keyword string, value any) any {
	named, ok := value.(map[string]any)
	if !ok && value != nil {
		return value // the library refuses it
	}
	translated := make(map[string]any, len(named))
	for _, name := range sortedKeys(named) {
		translated[name] = t.schema(at+JSONPointer(keyword, name), named[name])
	}
	return translated
}

// reference translates a $ref. The place must exist, and be in the same file (D30).
func (t *translator) reference(out map[string]any, at string, node map[string]any) {
	value, present := node["$ref"]
	ref, _ := value.(string)
	target, local := strings.CutPrefix(ref, "#")
	switch at += "/$ref"; {
	case !present:
	case !local:
		t.refuse(at, "must be a reference to a schema of the same file, such as #/definitions/name")
	default:
		t.references[at] = target
		out["$ref"] = "#" + (&url.URL{Fragment: target}).EscapedFragment()
	}
}

// dialect translates what OpenAPI 3.0 has and JSON Schema has not, adds x-required-for-helm for the check before Helm
// (D33), and marks secrets (D41) with the annotation that the library keeps.
func (t *translator) dialect(out map[string]any, at string, node map[string]any) {
	for exclusive, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		switch value := node[exclusive].(type) {
		case nil:
		case bool:
			if limit, ok := node[bound]; value && ok {
				out[exclusive] = limit
				delete(out, bound)
			}
		default:
			out[exclusive] = value
		}
	}
	switch value := node[secretKey].(type) {
	case nil:
	case bool:
		out["writeOnly"] = value
	default:
		t.refuse(at, "%s must be true or false, is %s", secretKey, describe(value))
	}
	names := node[requiredForHelmKey]
	if name, ok := names.(string); ok {
		names = []any{name}
	}
	list, ok := names.([]any)
	if slices.ContainsFunc(list, func(name any) bool { _, ok := name.(string); return !ok }) || names != nil && !ok {
		t.refuse(at, "%s must be a key or a list of keys", requiredForHelmKey)
	} else if t.forHelm && ok {
		out["required"] = union(list, out["required"])
	}
}

// allowNull allows null in addition (OpenAPI 3.0). The branches move behind "if it is not null", because each of them
// would have to allow null, too.
func allowNull(out map[string]any) {
	switch types := out["type"].(type) {
	case string:
		out["type"] = []any{types, "null"}
	case []any:
		out["type"] = union(types, []any{"null"})
	}
	if list, ok := out["enum"].([]any); ok {
		out["enum"] = union(list, []any{nil})
	}
	branches := maps.Clone(out)
	maps.DeleteFunc(branches, func(keyword string, _ any) bool {
		return !slices.Contains([]string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref"}, keyword)
	})
	if len(branches) > 0 {
		maps.DeleteFunc(out, func(keyword string, _ any) bool { _, moved := branches[keyword]; return moved })
		out["if"], out["else"] = map[string]any{"type": "null"}, branches
	}
}
