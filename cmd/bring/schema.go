package bring

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"addon-operator/helm/fetch"
	"addon-operator/values"
)

// schemaFile is the schema that people's values must fit (D29), below the module.
const schemaFile = "openapi/config-values.yaml"

// maxNodes bounds the number of schemas that are made of one, with all references written out: few
// references can describe a huge tree. What is beyond the limit may have any value.
const maxNodes = 20_000

// configSchema makes the schema of a module's section. It refuses nothing that the chart takes: the
// section holds only what differs from the defaults of the chart, so what the chart requires, and
// what depends on other values, is left to the chart's own schema, which is checked with everything
// else before Helm installs (H22).
//
// The schema of the chart is the first choice, if it accepts the defaults of the chart; then one
// that is inferred from these; and at last one that accepts any map. The text must depend on
// nothing else than the arguments: an upgrade makes it again, to find out whether it was edited.
func configSchema(c *fetch.Chart, key string) (string, error) {
	const head = `# What people may write under %q: in values.yaml, in the ConfigMap and in the Secret.
# Made from %s. Edit it as you like:
# 'module upgrade-chart' makes it again unless it was edited.
`
	if tree, ok := ofSchema(c.Schema); ok {
		if text, ok := taking(tree, c.Values); ok {
			return fmt.Sprintf(head, key, "values.schema.json of the chart, without what it requires") + text, nil
		}
	}
	text, ok := taking(ofDefaults(c.Values, c.Subcharts), c.Values)
	if !ok {
		if text, ok = taking(open(), nil); !ok {
			return "", errors.New("no schema can be generated")
		}
	}
	return fmt.Sprintf(head, key, "the default values of the chart") + text, nil
}

// shortTypes writes lists of types on one line, as people do. It works on the text, which is the
// YAML that this program writes, with one item of a list on each line.
func shortTypes(text string) string {
	var out strings.Builder
	var types []string
	indent := 0 // of the key
	end := func() {
		switch {
		case len(types) > 0:
			fmt.Fprintf(&out, " [%s]\n", strings.Join(types, ", "))
		case types != nil: // a property of this name
			out.WriteString("\n")
		}
		types = nil
	}
	for line := range strings.Lines(text) {
		item, isItem := strings.CutPrefix(strings.TrimSpace(line), "- ")
		column := len(line) - len(strings.TrimLeft(line, " "))
		if types != nil && isItem && column > indent {
			types = append(types, item)
			continue
		}
		end()
		if strings.TrimSpace(line) == "type:" {
			types, indent = []string{}, column
			line = strings.TrimSuffix(line, "\n")
		}
		out.WriteString(line)
	}
	end()
	return out.String()
}

// taking returns the text of a schema, and whether the operator can use it and accepts the defaults
// with it.
func taking(tree, defaults map[string]any) (string, bool) {
	text, err := values.YAML(tree)
	if err != nil {
		return "", false
	}
	short := shortTypes(string(text))
	schemas, err := values.CompileSchemas(values.SchemaFile{Path: schemaFile, Data: []byte(short)}, values.SchemaFile{})
	if err != nil {
		return "", false
	}
	section, err := sectionOf(schemas, defaults)
	return short, err == nil && section.ValidateConfig() == nil
}

// sectionOf makes a section of values whose numbers have any type: they are written and parsed
// again.
func sectionOf(schemas *values.Schemas, content map[string]any) (*values.Section, error) {
	text, err := values.YAML(content) // to the numbers of the project
	if err != nil {
		return nil, err
	}
	tree, err := values.ParseYAML(text)
	if err != nil {
		return nil, err
	}
	if tree == nil {
		tree = map[string]any{}
	}
	return values.NewSection("chart", schemas, values.Layer{Source: "chart", Value: tree})
}

// open is the schema of any map.
func open() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": true}
}

// nullable adds null to types: a value that is null removes a default of the chart.
func nullable(types ...any) []any { return append(types, "null") }

// ofDefaults infers a schema. A default shows what a value may look like, but charts look at values
// in many ways: text is often a template of anything, and null or an empty map or list shows
// nothing at all. So only these are refused: something else in the place of a map with content, a
// map or list in the place of a number or boolean, and one of these in the place of a list. Keys
// without a default are accepted, and the values of subcharts are not described: the defaults here
// are only a part of theirs.
func ofDefaults(defaults map[string]any, subcharts []string) map[string]any {
	schema := inferred(defaults)
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range append(slices.Clone(subcharts), values.GlobalKey) {
		if _, there := properties[name]; there {
			properties[name] = map[string]any{"type": nullable("object"), "additionalProperties": true}
		}
	}
	schema["type"] = "object"
	return schema
}

// inferred is the schema for one default; an empty one accepts anything.
func inferred(value any) map[string]any {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			return map[string]any{}
		}
		properties := make(map[string]any, len(v))
		for name, below := range v {
			properties[name] = inferred(below)
		}
		return map[string]any{"type": nullable("object"), "properties": properties, "additionalProperties": true}
	case []any:
		if len(v) > 0 {
			return map[string]any{"type": nullable("array", "object", "string")}
		}
	case bool:
		return map[string]any{"type": nullable("boolean", "string", "number")}
	case float64, int64, int, json.Number:
		return map[string]any{"type": nullable("number", "string", "boolean")}
	}
	return map[string]any{}
}

// ofSchema relaxes a values.schema.json, and reports whether there is a usable one.
func ofSchema(text []byte) (map[string]any, bool) {
	if len(text) == 0 {
		return nil, false
	}
	tree, err := values.ParseYAML(text) // JSON is YAML
	root, ok := tree.(map[string]any)
	if err != nil || !ok {
		return nil, false
	}
	r := relaxer{root: root, left: maxNodes}
	schema := r.schema(root, true, nil)
	schema["type"] = "object"
	delete(schema, "enum")
	// Values of global are shared with all modules, so the schema of a chart lacks some.
	if properties, ok := schema["properties"].(map[string]any); ok {
		properties[values.GlobalKey] = map[string]any{"type": nullable("object"), "additionalProperties": true}
	}
	return schema, true
}

// relaxer makes the schema of a part of the values out of that of the whole. It keeps keywords that
// restrict existing values, and removes those that require values. References are
// replaced by their targets, because a target is relaxed differently inside of lists, which are always
// whole.
type relaxer struct {
	root map[string]any
	left int // schemas that may still be made
}

// schema relaxes the schema of one place. partial is false in elements of lists, which replace
// those of the chart as a whole, so that required keys stay. open are the references that lead
// here: one that leads to itself ends with a schema that accepts anything. Unknown keywords are
// dropped.
func (r *relaxer) schema(node any, partial bool, open []string) map[string]any {
	out := map[string]any{}
	from, ok := node.(map[string]any)
	if r.left--; !ok || r.left < 0 {
		return out
	}
	// Editors show these.
	for _, keyword := range []string{"title", "description"} {
		if text, ok := from[keyword].(string); ok {
			out[keyword] = text
		}
	}
	if ref, ok := from["$ref"].(string); ok {
		if target, known := r.target(ref); known && !slices.Contains(open, ref) {
			// Clip, or two branches would write to one array.
			below := r.schema(target, partial, append(slices.Clip(open), ref))
			maps.Copy(below, out)
			return below
		}
		return out
	}
	r.kinds(out, from, partial)
	for _, keyword := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems"} {
		if value, ok := from[keyword]; ok && value != nil {
			out[keyword] = value
		}
	}
	if pattern, ok := from["pattern"].(string); ok {
		// Patterns of JSON Schema are those of JavaScript, of which Go does not support all.
		if _, err := regexp.Compile(pattern); err == nil {
			out["pattern"] = pattern
		}
	}
	if required, ok := from["required"].([]any); ok && !partial {
		out["required"] = required
	}
	r.below(out, from, partial, open)
	r.branches(out, from, partial, open)
	return out
}

// kinds relaxes which values are allowed. Null removes a default of the chart, so it is allowed
// wherever a default may be.
func (r *relaxer) kinds(out, from map[string]any, partial bool) {
	types, ok := from["type"].([]any)
	if one, isOne := from["type"].(string); isOne {
		types, ok = []any{one}, true
	}
	if ok {
		if types = slices.Clone(types); partial && !slices.Contains(types, any("null")) {
			types = nullable(types...)
		}
		if out["type"] = types; len(types) == 1 {
			out["type"] = types[0]
		}
	}
	list, ok := from["enum"].([]any)
	if value, there := from["const"]; there {
		list, ok = []any{value}, true
	}
	if ok {
		if list = slices.Clone(list); partial && !slices.Contains(list, nil) {
			list = append(list, nil)
		}
		out["enum"] = list
	}
}

// below relaxes keywords about parts of a value. Keys that a schema does not name are accepted,
// unless it refuses them itself: in the dialect of the operator they would be refused (D31).
func (r *relaxer) below(out, from map[string]any, partial bool, open []string) {
	declares := false
	for _, keyword := range []string{"properties", "patternProperties"} {
		named, _ := from[keyword].(map[string]any)
		relaxed := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if _, err := regexp.Compile(name); err == nil || keyword == "properties" {
				relaxed[name] = r.schema(named[name], partial, open)
			}
		}
		if len(relaxed) > 0 {
			out[keyword], declares = relaxed, true
		}
	}
	switch additional := from["additionalProperties"].(type) {
	case map[string]any:
		out["additionalProperties"] = r.schema(additional, partial, open)
	case bool:
		// false next to branches means their keys in one dialect and not in the other; a pattern
		// that is left out may have been meant for any key.
		patterns, _ := from["patternProperties"].(map[string]any)
		kept, _ := out["patternProperties"].(map[string]any)
		out["additionalProperties"] = additional || len(patterns) != len(kept)
	default:
		if declares || slices.ContainsFunc([]string{"allOf", "anyOf", "oneOf"}, func(k string) bool { return from[k] != nil }) {
			out["additionalProperties"] = true
		}
	}
	if items, ok := from["items"].(map[string]any); ok {
		out["items"] = r.schema(items, false, open)
	}
}

// branches relaxes alternatives. Of relaxed ones more than one may fit, so oneOf becomes anyOf;
// next to an anyOf it is dropped, since a schema has one. not, if and their like are dropped,
// because a relaxed schema in them would refuse more.
func (r *relaxer) branches(out, from map[string]any, partial bool, open []string) {
	for keyword, relaxed := range map[string]string{"allOf": "allOf", "anyOf": "anyOf", "oneOf": "anyOf"} {
		list, _ := from[keyword].([]any)
		if len(list) == 0 || keyword == "oneOf" && from["anyOf"] != nil {
			continue
		}
		branches := make([]any, len(list))
		for i, branch := range list {
			branches[i] = r.schema(branch, partial, open)
		}
		out[relaxed] = branches
	}
}

// target is the schema that a reference leads to, by a JSON pointer in the same file; false for
// others. The pointer is a part of a URL, so it is escaped twice.
func (r *relaxer) target(ref string) (any, bool) {
	fragment, local := strings.CutPrefix(ref, "#")
	pointer, err := url.PathUnescape(fragment)
	if !local || err != nil {
		return nil, false
	}
	return values.At(r.root, pointer)
}
