package values

import (
	"fmt"
	"strings"
	"testing"
)

// bigValues are nearly as large as values may be (D39), as they occur: some thousand small maps with texts, numbers
// and lists.
func bigValues(b *testing.B) (values any, schemas *Schemas) {
	var text strings.Builder
	text.WriteString("services:\n")
	for i := range 900 {
		fmt.Fprintf(&text, "- name: service-%d\n  image: {repository: registry.example.com/team/service-%d, tag: v1.%d.0}\n  replicas: %d\n"+
			"  resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {cpu: '1', memory: 512Mi}}\n  ports: [80, 443]\n  labels: {app: service-%d, team: team-%d}\n"+
			"  description: a text of some length that nobody reads but everybody keeps, number %d\n", i, i, i%10, i%5, i, i%7, i)
	}
	schema := `
type: object
properties:
  touched: {type: integer}
  services:
    type: array
    items:
      type: object
      required: [name, image]
      properties:
        name: {type: string, minLength: 1}
        image: {type: object, properties: {repository: {type: string}, tag: {type: string, pattern: '^v'}, pullPolicy: {type: string, enum: [Always, IfNotPresent], default: IfNotPresent}}}
        replicas: {type: integer, minimum: 0, maximum: 100}
        resources: {type: object, properties: {requests: {$ref: '#/definitions/resources'}, limits: {$ref: '#/definitions/resources'}}}
        ports: {type: array, items: {type: integer, minimum: 1, maximum: 65535}}
        labels: {type: object, additionalProperties: {type: string}}
        description: {type: string}
definitions:
  resources: {type: object, properties: {cpu: {type: string}, memory: {type: string}}}
`
	schemas, err := CompileSchemas(SchemaFile{}, SchemaFile{"values.yaml", []byte(schema)})
	must(b, err)
	values, err = ParseYAML([]byte(text.String()))
	must(b, err)
	size, err := JSON(values)
	must(b, err)
	b.SetBytes(int64(len(size)))
	return values, schemas
}

// Target: under 20 ms for a megabyte of one module.
func BenchmarkMergeAndValidate1MB(b *testing.B) {
	values, schemas := bigValues(b)
	section, err := NewSection("m", schemas, Layer{Value: values})
	must(b, err)
	for i := 0; b.Loop(); i++ {
		changed, err := section.WithConfig(map[string]any{"touched": int64(i)}, Origin{})
		must(b, err)
		must(b, changed.ValidateValues())
	}
}

func BenchmarkPatch1MB(b *testing.B) {
	values, schemas := bigValues(b)
	section, err := NewSection("m", schemas, Layer{Value: values})
	must(b, err)
	for i := 0; b.Loop(); i++ {
		if _, err := section.Patch(Patch{add(pointer{"m", "touched"}, int64(i))}, Origin{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseYAML1MB(b *testing.B) {
	values, _ := bigValues(b)
	text, err := YAML(values)
	must(b, err)
	for b.Loop() {
		if _, err := ParseYAML(text); err != nil {
			b.Fatal(err)
		}
	}
}

const moduleSchema = `
type: object
x-required-for-helm: [internal]
properties:
  replicas: {type: integer, default: 1}
  mode: {type: string, enum: [a, b], default: a}
  ingress: {type: object, default: {}, properties: {host: {type: string}, class: {type: string, default: nginx}}}
  internal: {type: object}
oneOf:
- properties: {mode: {enum: [a]}}
- properties: {mode: {enum: [b]}, ingress: {required: [host]}}
`

// A change of the ConfigMap that concerns all of 200 modules.
func Benchmark200Modules(b *testing.B) {
	var sections []*Section
	for i := range 200 {
		schemas, err := CompileSchemas(SchemaFile{"config-values.yaml", []byte(moduleSchema)}, SchemaFile{"values.yaml", []byte("x-extend: {schema: config-values.yaml}\n" + moduleSchema)})
		must(b, err)
		section, err := NewSection(fmt.Sprint("m", i), schemas, Layer{Value: map[string]any{"replicas": int64(2)}})
		must(b, err)
		sections = append(sections, section)
	}
	for i := 0; b.Loop(); i++ {
		for _, section := range sections {
			changed, err := section.WithConfig(map[string]any{"replicas": int64(i)}, Origin{})
			if err == nil {
				err = changed.ValidateConfig()
			}
			if err == nil {
				err = changed.ValidateValues()
			}
			if err != nil || changed.Checksum() == "" {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkCompileSchemas(b *testing.B) {
	for b.Loop() {
		if _, err := CompileSchemas(SchemaFile{"config-values.yaml", []byte(moduleSchema)}, SchemaFile{"values.yaml", []byte("x-extend: {schema: config-values.yaml}\n" + moduleSchema)}); err != nil {
			b.Fatal(err)
		}
	}
}

// A hook that writes a thousand keys at every run: compaction must not be quadratic in earnest.
func BenchmarkPatchOfThousandKeys(b *testing.B) {
	var patch Patch
	for i := range 1000 {
		patch = append(patch, add(pointer{"m", "found", fmt.Sprint("key", i)}, int64(i)))
	}
	section, err := NewSection("m", nil, Layer{Value: map[string]any{"found": map[string]any{}}})
	must(b, err)
	for b.Loop() {
		section, err = section.Patch(patch, Origin{})
		must(b, err)
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
