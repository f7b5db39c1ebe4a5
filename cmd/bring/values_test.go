package bring

import (
	"bytes"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"

	"addon-operator/helm/fetch"
	"addon-operator/values"
)

// judge says what the schema that is made of a chart has against values of the module.
func judge(t *testing.T, c *fetch.Chart, given string) string {
	t.Helper()
	text := configSchema(c, "web")
	schemas, err := values.CompileSchemas(values.SchemaFile{Path: schemaFile, Data: text}, values.SchemaFile{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if advice := schemas.Warnings(); len(advice) > 0 {
		t.Errorf("the schema has problems: %q", advice)
	}
	tree, err := values.ParseYAML([]byte(given))
	if err != nil {
		t.Fatal(err)
	}
	section, err := values.NewSection("web", schemas, values.Layer{Source: "values.yaml", Value: tree})
	if err != nil {
		t.Fatal(err)
	}
	if merged, _ := values.YAML(section.Merged()); tree != nil {
		if want, _ := values.YAML(tree); !bytes.Equal(merged, want) {
			t.Errorf("the schema changes values:\n%s", merged)
		}
	}
	if err := section.ValidateConfig(); err != nil {
		return err.Error()
	}
	return ""
}

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	tree, err := values.ParseYAML([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	content, _ := tree.(map[string]any)
	return content
}

// A schema made of defaults refuses what has no place in the chart, and nothing that a chart may take.
func TestSchemaOfDefaults(t *testing.T) {
	c := &fetch.Chart{Subcharts: []string{"redis"}, Loaded: &chart.Chart{Values: parsed(t, `
replicas: 1
enabled: true
image: {tag: "", pullPolicy: Always}
resources: {}
nothing: null
args: [a]
extra: []
service: {type: ClusterIP, port: 80, annotations: {}}
redis: {enabled: false}
global: {a: {b: 1}}
`)}}
	for given, want := range map[string]string{
		"": "",
		"replicas: 3\nenabled: false\nargs: [b]\nservice: {type: NodePort}": "",
		"replicas: '{{ .Values.global.replicas }}'\nenabled: auto":          "",
		"image: {tag: 1.20}\nresources: {limits: {cpu: 1}}":                 "",
		"nothing: {at: {all: 1}}\nextra: {a: b}\nargs: {a: b}":              "",
		"service: {annotations: {a: b}, somethingNew: 1}\nother: 5":         "",
		"replicas: null\nservice: null\nargs: null\nenabled: null":          "",
		"redis: {master: {persistence: {size: 1Gi}}}\nglobal: {a: 5}":       "",
		"image: {tag: {a: b}, pullPolicy: [a]}":                             "",
		"replicas: [1]\nargs: 5\nservice: {port: {http: 80}}":               "",
		"service: NodePort": "web.service",
		"image: [a]":        "web.image",
	} {
		if got := judge(t, c, given); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}

// A new values.yaml has what was given, with its comments where the text can be moved.
func TestValuesFile(t *testing.T) {
	for given, want := range map[string]string{
		"": "# webEnabled: true   # enables the module\nweb:\n",
		"---\n# two of them\nreplicaCount: 2\nscript: |\n  a\n\n    b\nlist:\n- 1\n": "web:\n  # two of them\n  replicaCount: 2\n  script: |\n    a\n\n      b\n",
		"{a: 1,\nb: \"c\n\n  d\"}": "",
	} {
		text, err := valuesFile("web", "web", given)
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%v: no %q in\n%s", err, want, text)
		}
		got, _ := values.YAML(parsed(t, text)["web"])
		if want, _ := values.YAML(parsed(t, given)); given != "" && !bytes.Equal(got, want) {
			t.Errorf("the values became\n%s", got)
		}
	}
	if _, err := valuesFile("web", "web", "[1]"); err == nil {
		t.Error("a list is taken")
	}
}
