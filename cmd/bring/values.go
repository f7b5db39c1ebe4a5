package bring

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"addon-operator/helm/fetch"
	"addon-operator/values"
)

// schemaFile is the schema that people's values must fit (D29), below the module.
const schemaFile = "openapi/config-values.yaml"

// valuesFile is the values.yaml of a new module: what the user gave, below the key of the module.
func valuesFile(chart, key, given string) (string, error) {
	taken, err := values.ParseYAML([]byte(given))
	if err != nil {
		return "", err
	}
	own, isMap := taken.(map[string]any)
	if !isMap && taken != nil {
		return "", errors.New("they must be a map")
	}
	text := fmt.Sprintf("# Values of the chart %s that are not those of chart/values.yaml, which lists all.\n# %s: true   # enables the module\n%s:\n", chart, values.FlagKey(key), key)
	if len(own) > 0 {
		// Indenting the text keeps comments. That is right only if it parses to the same values, which
		// multi-line texts and flow style may break; the values are written again otherwise.
		block := prefixed("  ", strings.TrimPrefix(strings.TrimSpace(given), "---\n")+"\n")
		moved, err := values.ParseYAML([]byte(key + ":\n" + block))
		if err != nil || !reflect.DeepEqual(moved, map[string]any{key: own}) {
			again, _ := values.YAML(own) // it was parsed from YAML
			block = prefixed("  ", string(again))
		}
		text += block
	}
	return text, nil
}

// prefixed puts a prefix before each line that is not empty.
func prefixed(prefix, text string) string {
	return regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(text, prefix+"$1")
}

// configSchema makes the schema of a module's section from the defaults of the chart. It refuses nothing
// that the chart takes: Helm checks the chart's own schema when it renders. The text depends on nothing
// else than the arguments: an upgrade makes it again, to find out whether it was edited.
func configSchema(c *fetch.Chart, key string) []byte {
	schema := inferred(c.Loaded.Values)
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range append(slices.Clone(c.Subcharts), values.GlobalKey) { // defaults here are only a part of theirs
		if _, there := properties[name]; there {
			properties[name] = anyMap()
		}
	}
	delete(schema, "nullable")
	text, _ := values.YAML(schema) // its keys were parsed from YAML
	return append(fmt.Appendf(nil, `# What people may write under %q: in values.yaml, in the ConfigMap and in the Secret.
# Made from the default values of the chart. Edit it as you like:
# 'module upgrade-chart' makes it again unless it was edited.
`, key), text...)
}

// anyMap is the schema of any map. A value that is null removes a default of the chart.
func anyMap() map[string]any {
	return map[string]any{"type": "object", "nullable": true, "additionalProperties": true}
}

// inferred is the schema for a map of defaults. A default shows what a value may look like, but charts
// look at values in many ways: text is often a template of anything, and null or an empty map or list
// shows nothing at all. So it refuses only something else in the place of a map with content.
func inferred(defaults map[string]any) map[string]any {
	properties := make(map[string]any, len(defaults))
	for name, value := range defaults {
		properties[name] = map[string]any{}
		if below, ok := value.(map[string]any); ok && len(below) > 0 {
			properties[name] = inferred(below)
		}
	}
	schema := anyMap()
	schema["properties"] = properties
	return schema
}
