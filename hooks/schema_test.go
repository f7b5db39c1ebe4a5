package hooks

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

func TestSchemasAreSchemas(t *testing.T) {
	for name, schema := range map[string][]byte{V0: configV0Schema, V1: configV1Schema} {
		if _, err := jsonschema.CompileString("config.json", string(schema)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The schema is one for both scopes; together they allow exactly the table of C8.
func TestSchemasAllowTheBindingsOfBothScopes(t *testing.T) { // C8
	for version, schema := range map[string][]byte{V0: configV0Schema, V1: configV1Schema} {
		var parsed struct{ Properties map[string]any }
		must(t, json.Unmarshal(schema, &parsed))
		want := append(allowedBindings(Global, version), allowedBindings(Module, version)...)
		for key := range parsed.Properties {
			if key != "settings" && key != "configVersion" && !slices.Contains(want, key) {
				t.Errorf("%s: the schema allows %s, which is no binding", version, key)
			}
		}
		for _, binding := range want {
			if _, ok := parsed.Properties[binding]; !ok {
				t.Errorf("%s: the schema does not know %s", version, binding)
			}
		}
	}
}

// The schema that editors use is the one that validates.
func TestTheSchemaInDocsIsThisOne(t *testing.T) {
	shown, err := os.ReadFile("../docs/hook-config.v1.schema.json")
	must(t, err)
	if !bytes.Equal(shown, configV1Schema) {
		t.Error("docs/hook-config.v1.schema.json is not hooks/config.v1.schema.json; make it a symbolic link to it")
	}
}

// An editor shows title and description of each property, its own or those of what it refers to.
func TestTheSchemaExplainsEveryProperty(t *testing.T) {
	var schema map[string]any
	must(t, json.Unmarshal(configV1Schema, &schema))
	explained := func(rule map[string]any, word string) bool {
		if text, _ := rule[word].(string); text != "" {
			return true
		}
		pointer, _ := rule["$ref"].(string)
		definitions, _ := schema["$defs"].(map[string]any)
		below, _ := definitions[strings.TrimPrefix(pointer, "#/$defs/")].(map[string]any)
		text, _ := below[word].(string)
		return text != "" && pointer != ""
	}
	var visit func(path string, node any)
	visit = func(path string, node any) {
		rule, ok := node.(map[string]any)
		if !ok {
			return
		}
		properties, _ := rule["properties"].(map[string]any)
		for name, property := range properties {
			property, _ := property.(map[string]any)
			if !explained(property, "title") {
				t.Errorf("%s/%s has no title", path, name)
			}
			_, structured := property["properties"]
			if !structured && !explained(property, "description") && name != "settings" && name != "nameSelector" {
				t.Errorf("%s/%s has no description", path, name)
			}
		}
		for key, below := range rule {
			visit(path+"/"+key, below)
		}
	}
	visit("", any(schema))
}

// What is wrong is said in our words, whatever keyword of the schemas it offends. C7
func TestEveryKeywordIsExplained(t *testing.T) {
	const library = "words of the library"
	words := []string{"$schema", "$id", "$ref", "$defs", "title", "description", "default", "properties", "items"} // they cannot be offended
	var visit func(where string, rule map[string]any)
	visit = func(where string, rule map[string]any) {
		for keyword, said := range rule {
			found := &report{}
			explain(place{path: "a", value: map[string]any{"unknown": true}, report: found}, rule, keyword, library)
			for _, v := range found.violations {
				if strings.Contains(v.Problem, library) && !slices.Contains(words, keyword) {
					t.Errorf("%s/%s is explained by the library", where, keyword)
				}
			}
			below, _ := said.(map[string]any)
			switch keyword {
			case "items":
				visit(where+"/items", below)
			case "properties", "$defs":
				for name := range below {
					one, _ := below[name].(map[string]any)
					visit(where+"/"+keyword+"/"+name, one)
				}
			}
		}
	}
	for version, schema := range map[string][]byte{V0: configV0Schema, V1: configV1Schema} {
		var parsed map[string]any
		must(t, json.Unmarshal(schema, &parsed))
		visit(version, parsed)
	}
}

// Every object is closed: a key that is ignored silently is the mistake that takes longest to find.
func TestSchemasCloseEveryObject(t *testing.T) { // C7
	var visit func(path string, node any)
	visit = func(path string, node any) {
		rule, ok := node.(map[string]any)
		if !ok {
			return
		}
		if rule["type"] == "object" {
			if _, closed := rule["additionalProperties"]; !closed {
				t.Errorf("%s is open", path)
			}
		}
		for key, below := range rule {
			visit(path+"/"+key, below)
		}
	}
	for version, schema := range map[string][]byte{V0: configV0Schema, V1: configV1Schema} {
		var parsed any
		must(t, json.Unmarshal(schema, &parsed))
		visit(version, parsed)
	}
}

func TestPaths(t *testing.T) {
	document := place{value: map[string]any{"a": []any{map[string]any{"b/c~d e.f": "x", "0": "y"}}}}
	tests := map[string]struct {
		tokens      []string
		path, value string
	}{
		"an element":                   {[]string{"a", "0", "0"}, "a[0].0", "y"},
		"a key that needs every quote": {[]string{"a", "0", "b/c~d e.f"}, `a[0]["b/c~d e.f"]`, "x"},
		"an element that is not there": {[]string{"a", "7"}, "a.7", ""},
		"the document":                 {nil, "", ""},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			at := walk(document, test.tokens)
			if at.path != test.path || at.text() != test.value {
				t.Errorf("got %q, %q", at.path, at.text())
			}
		})
	}
}

func TestShow(t *testing.T) {
	tests := map[string]any{
		"null": nil, `"a<b"`: "a<b", "[1,true]": []any{1, true},
		`"` + strings.Repeat("ä", 29) + "…": strings.Repeat("ä", 100),
		"a number":                          make(chan int), // what has no JSON is still named
	}
	for want, value := range tests {
		if got := show(value); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
