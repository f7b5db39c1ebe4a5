package values

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

// FuzzParseYAML: whatever is accepted is a tree that survives being written as YAML and as JSON, and being read again.
func FuzzParseYAML(f *testing.F) {
	for _, text := range []string{
		"", "a: 1", "a: [yes, 1e6, 0x1f, ~, 2001-01-01]", "- |\n  x\n  y\n- >\n  z\n", "a: &x {b: 1}\nc:\n  <<: *x\n", "a: 1\na: 2", "\"\\x00\": '\t'",
		"a: !!binary aGk=", "? a\n: b", "{a: [{}, []]}", "a: 123456789012345678901234567890", "a: .inf", "--- ~\n...", "\ufeffa: 1", "a: \"\\u2028\\uFFFE\"", "'=': '<<'",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, err := ParseYAML(data)
		if err != nil {
			return
		}
		checkTree(t, tree)
		text, err := YAML(tree)
		wantError(t, err)
		again, err := ParseYAML(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !reflect.DeepEqual(again, tree) {
			t.Fatalf("%q became %q", data, text)
		}
		fromJSON, err := ParseJSON([]byte(jsonText(t, tree)))
		wantError(t, err)
		wantTree(t, "from JSON", fromJSON, tree)
	})
}

// checkTree checks that there is nothing in a tree that does not belong there.
func checkTree(t *testing.T, tree any) {
	switch v := tree.(type) {
	case nil, bool, string, int64:
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e100 {
			t.Fatalf("%v is an integer", v)
		}
	case json.Number:
		if strings.ContainsAny(string(v), ".eE+_xob") {
			t.Fatalf("%v is no decimal integer", v)
		}
	case []any:
		for _, child := range v {
			checkTree(t, child)
		}
	case map[string]any:
		for _, child := range v {
			checkTree(t, child)
		}
	default:
		t.Fatalf("%T in a tree", v)
	}
}

// FuzzPatch: no patch breaks anything; one that is accepted changes only the result, and its saved form gives the
// same values when it is replayed.
func FuzzPatch(f *testing.F) {
	for _, text := range []string{
		`{"op":"add","path":"/m/a","value":1}`, `[{"op":"move","from":"/m/a","path":"/m/list/-"}]`, `{"op":"replace","path":"m.a","value":null}`,
		`{"op":"remove","path":"/m/list/0"}{"op":"test","path":"/m/a","value":{"b":[]}}`, `{"op":"copy","from":"/m","path":"/m/a/x"}`,
		`{"op":"add","path":"/m/list/1/c/~0~1","value":{"x":[1e6,1.5]}}`, `{"op":"remove","path":"/m"}`, `[{"op":"add","path":"/m","value":[]}]`, `{"op":"add","path":"/m/a/-","value":""}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		patch, _, err := ParsePatch(data)
		if err != nil || patch == nil {
			return
		}
		written, err := json.Marshal(patch)
		wantError(t, err)
		if again, _, err := ParsePatch(written); err != nil || !reflect.DeepEqual(again, patch) {
			t.Fatalf("%s is read as %v: %v", written, again, err)
		}
		section := sectionOf(t, "m", nil, "{a: {b: []}, list: [x, {c: {}}], none: }", "")
		before := jsonText(t, section.Merged())
		changed, err := section.Patch(patch, Origin{})
		if jsonText(t, section.Merged()) != before {
			t.Fatal("the section was changed")
		}
		if err != nil {
			return
		}
		checkTree(t, changed.Merged())
		replayed, err := changed.WithConfig(nil, Origin{})
		wantError(t, err)
		wantTree(t, "replayed", replayed.Merged(), changed.Merged())
	})
}

// FuzzCompileSchemas: no schema breaks the compiler, and what it accepts can validate anything.
func FuzzCompileSchemas(f *testing.F) {
	add := func(config, values string) { f.Add([]byte(config), []byte(values)) }
	add("", "{type: object, properties: {a: {type: integer, default: 1}}}")
	add("{properties: {a: {type: string}}}", "{x-extend: {schema: config-values.yaml}, x-required-for-helm: a}")
	add("", "{definitions: {x: {properties: {c: {$ref: '#/definitions/x'}}}}, allOf: [{$ref: '#/definitions/x'}, {properties: {c: {properties: {d: {}}}}}]}")
	add("", "{patternProperties: {'^a': {nullable: true, type: string}}, additionalProperties: {items: [{}, {default: 1}]}}")
	add("", "{oneOf: [{minimum: 1, exclusiveMinimum: true}, {not: {enum: [1]}}], if: {}, then: {format: date-time}, else: false}")
	add("", "{items: {$ref: '#'}, dependentSchemas: {a: {required: [b]}}, $id: 'http://x/', $schema: 'http://y', $anchor: z}")
	add("", "{properties: {'': {default: {}}, $ref: {}, a/b: {}}}")
	add("", "{x-required-for-helm: [], required: [a, a], multipleOf: 0, pattern: '('}")
	f.Fuzz(func(t *testing.T, config, values []byte) {
		schemas, err := CompileSchemas(SchemaFile{"config-values.yaml", config}, SchemaFile{"values.yaml", values})
		if err != nil {
			return
		}
		for _, text := range []string{"", "{a: 1, b: {c: {d: 1}}, '': [1, {a: x}]}", "[1, null, {a: {}}]", "{a: {a: {a: {a: {c: {c: 1}}}}}}"} {
			section := sectionOf(t, "m", schemas, text, "")
			for _, err := range []error{section.ValidateConfig(), section.ValidateValues(), section.ValidateForHelm()} {
				if err != nil && len(violations(t, err)) == 0 {
					t.Fatalf("invalid without a violation: %v", err)
				}
			}
		}
	})
}
