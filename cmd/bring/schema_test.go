package bring

import (
	"bytes"
	"strings"
	"testing"

	"addon-operator/helm/fetch"
	"addon-operator/values"
)

// judge says what the schema that is made of a chart has against values of the module.
func judge(t *testing.T, c *fetch.Chart, given string) string {
	t.Helper()
	text, err := configSchema(c, "web")
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := values.CompileSchemas(values.SchemaFile{Path: schemaFile, Data: []byte(text)}, values.SchemaFile{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if advice := append(schemas.Warnings(), schemas.Problems()...); len(advice) > 0 {
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
	c := &fetch.Chart{Subcharts: []string{"redis"}, Values: parsed(t, `
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
`)}
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
		"service: NodePort":                                                 "web.service",
		"replicas: [1]":                                                     "web.replicas",
		"enabled: {a: 1}":                                                   "web.enabled",
		"args: 5":                                                           "web.args",
		"service: {port: {http: 80}}":                                       "web.service.port",
	} {
		if got := judge(t, c, given); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}
