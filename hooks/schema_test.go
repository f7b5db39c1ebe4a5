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
