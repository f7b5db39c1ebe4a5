package charts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"sigs.k8s.io/yaml"

	"addon-operator/helm/fetch/fetchtest"
)

// valuesOf parses values for a test.
func valuesOf(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// takes reports whether Helm takes the values.
func (c *Chart) takes(t *testing.T, values map[string]any) error {
	t.Helper()
	use := c.Copy()
	if err := chartutil.ProcessDependenciesWithMerge(use, values); err != nil {
		t.Fatal(err)
	}
	_, err := chartutil.ToRenderValues(use, values, chartutil.ReleaseOptions{Name: "m"}, nil)
	return err
}

// H22: what a values.schema.json refuses is what Helm refuses, with the place in the module's values and without the value.
func TestViolations(t *testing.T) {
	const wrapper = `
-- Chart.yaml --
apiVersion: v2
name: parent
version: 0.1.0
dependencies:
- {name: sub, version: 0.1.0, alias: web, condition: web.enabled}
-- charts/sub/Chart.yaml --
{apiVersion: v2, name: sub, version: 0.1.0}
-- charts/sub/values.yaml --
size: 1
-- charts/sub/values.schema.json --
`
	const file = " (charts/web/values.schema.json)"
	for name, c := range map[string]struct {
		schema, values string
		want           []string
	}{
		"fits":             {`{"properties": {"size": {"type": "integer"}}}`, "web: {size: 2}", nil},
		"defaults count":   {`{"required": ["size"], "properties": {"global": {"type": "object"}}}`, "web: {}", nil},
		"switched off":     {`{"properties": {"size": {"type": "integer"}}}`, "web: {enabled: false, size: many}", nil},
		"a wrong type":     {`{"properties": {"size": {"type": "integer"}}}`, "web: {size: hunter2}", []string{"web.size: must be an integer, is a string"}},
		"an unknown key":   {`{"additionalProperties": false, "properties": {"size": {}, "global": {}}}`, "web: {sise: 2, other: 1}", []string{"web.other: is not a known key", "web.sise: is not a known key"}},
		"required":         {`{"required": ["host", "size"]}`, "web: {}", []string{"web.host: is required"}},
		"in a list":        {`{"properties": {"ports": {"items": {"properties": {"port": {"maximum": 9, "minimum": 0.5}}}}}}`, "web: {ports: [{port: 1}, {port: 10}, {port: 0}]}", []string{"web.ports[1].port: must be at most 9", "web.ports[2].port: must be at least 1/2"}},
		"no secret":        {`{"properties": {"password": {"type": "string", "pattern": "^[0-9]+$", "minLength": 9}}}`, "web: {password: hunter2}", []string{"web.password: must have at least 9 characters", "web.password: must match the pattern ^[0-9]+$"}},
		"alternatives":     {`{"properties": {"size": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["max"]}]}}}`, "web: {size: true}", []string{"web.size: fits none of the alternatives of anyOf: must be a string, is a boolean; or must be a map, is a boolean"}},
		"global":           {`{"properties": {"global": {"properties": {"zone": {"enum": ["a", "b"]}}}}}`, "global: {zone: c}\nweb: {}", []string{`global.zone: must be one of "a", "b"`}},
		"draft 4":          {`{"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"size": {"maximum": 3, "exclusiveMaximum": true}}}`, "web: {size: 3}", []string{"web.size: must be less than 3"}},
		"formats are idle": {`{"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"size": {"format": "email"}}}`, "web: {size: nobody}", nil},
		"a reference":      {`{"$defs": {"n": {"type": "integer"}}, "properties": {"size": {"$ref": "#/$defs/n"}}}`, "web: {size: a}", []string{"web.size: must be an integer, is a string"}},
		"one of two":       {`{"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}`, "web: {a: 1, b: 1}", []string{"web: matches more than one alternative of oneOf; it must match exactly one"}},
		"excluded":         {`{"properties": {"size": {"not": {"const": 2}}, "a": false}}`, "web: {size: 2, a: 1}", []string{"web.a: is not allowed", "web.size: matches what the schema excludes with not"}},
	} {
		t.Run(name, func(t *testing.T) {
			loaded, err := new(Cache).Load(moduleOf(t, "parent", wrapper+c.schema+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			values := valuesOf(t, c.values)
			found, err := loaded.Violations(values)
			var got []string
			for _, v := range found {
				got = append(got, strings.TrimSuffix(v.String(), file))
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
			if err := loaded.takes(t, values); (err == nil) != (len(found) == 0) {
				t.Errorf("Helm: %v", err)
			}
		})
	}
}

// H22: of a chart in chart/ the section is the values, and global is shared.
func TestViolationsOfInnerChart(t *testing.T) {
	m := moduleOf(t, "m", "-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 0.1.0}\n-- chart/values.schema.json --\n"+
		`{"properties": {"size": {"type": "integer"}, "global": {"properties": {"zone": {"type": "string"}}}}}`+"\n"+
		"-- chart/charts/sub/Chart.yaml --\n{apiVersion: v2, name: sub, version: 0.1.0}\n-- chart/charts/sub/values.schema.json --\n"+`{"required": ["a"]}`+"\n")
	loaded, err := new(Cache).Load(m)
	if err != nil {
		t.Fatal(err)
	}
	found, err := loaded.Violations(valuesOf(t, "m: {size: a, sub: {}}\nglobal: {zone: 1}\n"))
	want := []Violation{
		{"global", "global.zone", "must be a string, is a number", "values.schema.json"},
		{"m", "m.size", "must be an integer, is a string", "values.schema.json"},
		{"m", "m.sub.a", "is required", "charts/sub/values.schema.json"},
	}
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("%+v, %v", found, err)
	}
}

// A schema that cannot be used here is left to Helm, and one that is too expensive is refused in bounded time.
func TestViolationsAreBounded(t *testing.T) {
	deep := strings.Repeat("{a: ", 40) + "1" + strings.Repeat("}", 40)
	for name, c := range map[string]struct{ schema, values, want string }{
		"elsewhere": {`{"properties": {"a": {"$ref": "http://127.0.0.1:1/a.json"}}}`, "a: 1", ErrElsewhere.Error()},
		"no JSON":   {`{`, "a: 1", "values.schema.json: it is not JSON"},
		"no schema": {`{"type": "objekt"}`, "a: 1", "values.schema.json: "},
		"keyword of 2019": {
			`{"$schema": "https://json-schema.org/draft/2019-09/schema", "properties": {"a": {"properties": {"b": {"examples": ""}}}}}`, "a: {}",
			"it is not a JSON schema, and Helm installs no chart with it; /properties/a/properties/b/examples must be a list, is a string",
		},
		"too expensive": {`{"$defs": {"n": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["x"]}, {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["y"]}]}}, "$ref": "#/$defs/n"}`, "a: " + deep, "[the values: the check is too expensive (values.schema.json)]"},
	} {
		t.Run(name, func(t *testing.T) {
			loaded, err := new(Cache).Load(moduleOf(t, "m", "-- templates/a.yaml --\n-- values.schema.json --\n"+c.schema+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			found, err := loaded.Violations(valuesOf(t, c.values))
			got := fmt.Sprint(found)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) || name == "elsewhere" && !errors.Is(err, ErrElsewhere) {
				t.Errorf("%s, %v; want %q", got, err, c.want)
			}
		})
	}
}

// Public charts take their own values: CHARTS=DIR.
func TestViolationsOfForeignCharts(t *testing.T) {
	eachForeignChart(t, func(t *testing.T, dir string, values map[string]any) {
		m := Module{Name: filepath.Base(dir), Key: "own", Dir: t.TempDir()}
		if err := os.CopyFS(filepath.Join(m.Dir, "chart"), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		loaded, err := new(Cache).Load(m)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := loaded.Violations(map[string]any{"own": values}); err != nil || len(found) > 0 {
			t.Errorf("%q, %v", found, err)
		}
	})
}

// eachForeignChart plays the charts in $CHARTS, with the values in NAME.values.yaml next to each.
func eachForeignChart(t *testing.T, play func(t *testing.T, dir string, values map[string]any)) {
	t.Helper()
	if os.Getenv("CHARTS") == "" {
		t.Skip("CHARTS names no directory with charts")
	}
	for _, dir := range fetchtest.Charts(t, os.Getenv("CHARTS")) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			text, err := os.ReadFile(dir + ".values.yaml")
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			play(t, dir, valuesOf(t, string(text)))
		})
	}
}
