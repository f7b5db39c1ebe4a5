package bring

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"addon-operator/helm/fetch"
	"addon-operator/values"
)

// schemaFile is the schema that people's values must fit (D29), below the module.
const schemaFile = "openapi/config-values.yaml"

// configSchema makes the schema of a module's section from the defaults of the chart, or, when they do
// not fit it, one that accepts any map. It refuses nothing that the chart takes: Helm checks the
// chart's own schema when it renders. The text must depend on nothing else than the arguments: an
// upgrade makes it again, to find out whether it was edited.
func configSchema(c *fetch.Chart, key string) (string, error) {
	const head = `# What people may write under %q: in values.yaml, in the ConfigMap and in the Secret.
# Made from the default values of the chart. Edit it as you like:
# 'module upgrade-chart' makes it again unless it was edited.
`
	text, ok := taking(ofDefaults(c.Values, c.Subcharts), c.Values)
	if !ok {
		if text, ok = taking(open(), nil); !ok {
			return "", errors.New("no schema can be generated")
		}
	}
	return fmt.Sprintf(head, key) + text, nil
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
