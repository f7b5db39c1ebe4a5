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

const schemaOfAChart = `{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object", "required": ["image", "replicas"], "additionalProperties": false,
  "definitions": {
    "port": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "number": {"$ref": "#/definitions/a%20number~1of~0ports"}}},
    "a number/of~ports": {"type": "integer", "minimum": 1, "maximum": 65535},
    "tree": {"type": "object", "properties": {"below": {"$ref": "#/definitions/tree"}, "leaf": {"type": "string"}}}
  },
  "properties": {
    "replicas": {"type": "integer", "minimum": 1, "default": 5},
    "image": {"type": "object", "required": ["repository"], "properties": {"repository": {"type": "string"}, "tag": {"type": ["string", "number"], "pattern": "^[^ ]*$"}}},
    "policy": {"type": "string", "enum": ["Always", "Never"]},
    "mode": {"const": "one"},
    "ports": {"type": "array", "items": {"$ref": "#/definitions/port"}},
    "first": {"$ref": "#/definitions/port", "description": "The first port"},
    "tree": {"$ref": "#/definitions/tree"},
    "remote": {"$ref": "https://example.com/schema.json#/definitions/x"},
    "either": {"oneOf": [{"required": ["a"], "properties": {"a": {"type": "string"}}}, {"required": ["b"], "properties": {"b": {"type": "string"}}}]},
    "tls": {"type": "object", "properties": {"enabled": {"type": "boolean"}, "secret": {"type": "string"}},
      "if": {"properties": {"enabled": {"const": true}}}, "then": {"required": ["secret"]}, "not": {"required": ["insecure"]}},
    "labels": {"type": "object", "patternProperties": {"^a(?!b)": {"type": "string"}}, "additionalProperties": false},
    "closed": {"type": "object", "properties": {"a": {"type": "string", "format": "hostname"}}, "additionalProperties": false}
  }
}`

// A schema of the chart is about all values; those of the module are what differs from the defaults.
func TestSchemaOfTheChart(t *testing.T) {
	c := &fetch.Chart{Schema: []byte(schemaOfAChart), Values: parsed(t, "replicas: 1\nimage: {repository: web}")}
	for given, want := range map[string]string{
		"":                         "",
		"replicas: 2":              "",
		"image: {tag: '1'}":        "",
		"image: {tag: 1, else: 2}": "",
		"replicas: null\nimage: null\npolicy: null\nports: null\nmode: null\neither: null\ntree: null": "",
		"first: {number: 80}":               "",
		"tree: {below: {below: {leaf: a}}}": "",
		"remote: {anything: [1]}":           "",
		"either: {a: x}":                    "",
		"either: {c: x}":                    "",
		"tls: {enabled: true}":              "",
		"tls: {insecure: true}":             "",
		"labels: {ac: 5}":                   "",
		"closed: {a: not a hostname}":       "",
		"global: {site: north}":             "",
		"replicas: many":                    "web.replicas",
		"replicas: 0":                       "web.replicas",
		"policy: Sometimes":                 "web.policy",
		"mode: two":                         "web.mode",
		"replica: 2":                        "web.replica",
		"ports: [{number: 80}]":             "web.ports[0]",
		"ports: [{name: a, number: 0}]":     "web.ports[0].number",
		"first: {number: 0}":                "web.first.number",
		"image: {tag: a b}":                 "web.image.tag",
		"either: {a: 5, b: 5}":              "web.either",
		"closed: {b: 1}":                    "web.closed.b",
		"tree: {below: {leaf: [1]}}":        "",
	} {
		if got := judge(t, c, given); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
	text, err := configSchema(c, "web")
	if err != nil || !strings.Contains(text, "values.schema.json") || !strings.Contains(text, "type: [integer, \"null\"]") {
		t.Errorf("%v\n%s", err, text)
	}
}

// A schema that is no use is replaced by one of the defaults; one that means too much, by one that takes everything.
func TestSchemaThatIsNoUse(t *testing.T) {
	for name, schema := range map[string]string{
		"no JSON":                   "{",
		"a list":                    "[]",
		"refuses its own defaults":  `{"properties": {"replicas": {"type": "string"}}}`,
		"a type that there is not":  `{"properties": {"replicas": {"type": "number of"}}}`,
		"refers to itself":          `{"$ref": "#"}`,
		"grows with each reference": `{"definitions": {"a": {"properties": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/b"}}}, "b": {"properties": {"a": {"$ref": "#/definitions/c"}, "b": {"$ref": "#/definitions/c"}}}, "c": {"allOf": [{"$ref": "#/definitions/a"}, {"$ref": "#/definitions/b"}]}}, "$ref": "#/definitions/a"}`,
	} {
		c := &fetch.Chart{Schema: []byte(schema), Values: parsed(t, "replicas: 1")}
		if got := judge(t, c, "replicas: 2\nelse: {a: 1}"); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
