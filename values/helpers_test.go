package values

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// yamlTree parses YAML that the test knows to be right.
func yamlTree(t testing.TB, text string) any {
	t.Helper()
	tree, err := ParseYAML([]byte(text))
	if err != nil {
		t.Fatalf("YAML of the test: %v\n%s", err, text)
	}
	return tree
}

func jsonText(t testing.TB, tree any) string {
	t.Helper()
	text, err := JSON(tree)
	if err != nil {
		t.Fatalf("JSON: %v", err)
	}
	return string(text)
}

func patchOf(t testing.TB, text string) Patch {
	t.Helper()
	patch, _, err := ParsePatch([]byte(text))
	if err != nil {
		t.Fatalf("patch of the test: %v\n%s", err, text)
	}
	return patch
}

func schemasOf(t testing.TB, config, values string) *Schemas {
	t.Helper()
	schemas, err := CompileSchemas(schemaFile("openapi/config-values.yaml", config), schemaFile("openapi/values.yaml", values))
	if err != nil {
		t.Fatalf("schemas of the test: %v", err)
	}
	return schemas
}

func schemaFile(path, text string) SchemaFile {
	file := SchemaFile{Path: path}
	if text != "" {
		file.Data = []byte(text)
	}
	return file
}

// sectionOf makes a section from one static layer and a ConfigMap section, both YAML, both may be empty.
func sectionOf(t testing.TB, key string, schemas *Schemas, static, config string) *Section {
	t.Helper()
	section, err := NewSection(key, schemas, Layer{Source: "values.yaml", Value: yamlTree(t, static)})
	if err != nil {
		t.Fatalf("section: %v", err)
	}
	if config == "" {
		return section
	}
	section, err = section.WithConfig(yamlTree(t, config), Origin{})
	if err != nil {
		t.Fatalf("section: %v", err)
	}
	return section
}

func wantTree(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, jsonText(t, got), jsonText(t, want))
	}
}

// wantYAML compares a tree with YAML text.
func wantYAML(t testing.TB, what string, got any, want string) {
	t.Helper()
	wantTree(t, what, got, yamlTree(t, want))
}

// wantError checks that an error mentions everything; without words there must be no error.
func wantError(t testing.TB, err error, words ...string) {
	t.Helper()
	if len(words) == 0 {
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return
	}
	if err == nil {
		t.Fatalf("no error; want one with %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error lacks %q:\n%v", word, err)
		}
	}
}

// second returns the error of a call whose result is not needed.
func second[V any](_ V, err error) error { return err }

// violations gives the texts of a ValidationError, sorted as they are reported.
func violations(t testing.TB, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var invalid *ValidationError
	if !errors.As(err, &invalid) {
		t.Fatalf("want a ValidationError, got %T: %v", err, err)
	}
	var texts []string
	for _, v := range invalid.Violations {
		texts = append(texts, v.String())
	}
	return texts
}

func wantViolations(t testing.TB, err error, want ...string) {
	t.Helper()
	if got := violations(t, err); !reflect.DeepEqual(got, want) {
		t.Errorf("violations:\n got %q\nwant %q", got, want)
	}
}

// randomTree makes a small tree from few keys, so that paths meet.
func randomTree(r *rand.Rand, depth int) any {
	kinds := 9
	if depth == 0 {
		kinds = 5
	}
	switch r.IntN(kinds) {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return int64(r.IntN(5))
	case 3:
		return fmt.Sprint("text", r.IntN(3))
	case 4:
		return 0.5
	case 5, 6:
		list := []any{}
		for range r.IntN(4) {
			list = append(list, randomTree(r, depth-1))
		}
		return list
	default:
		return randomMap(r, depth)
	}
}

func randomMap(r *rand.Rand, depth int) map[string]any {
	m := map[string]any{}
	for range r.IntN(5) {
		m[randomElement(r)] = randomTree(r, depth-1)
	}
	return m
}

// randomElement is a key of a map, sometimes one that looks like a place in a list.
func randomElement(r *rand.Rand) string {
	return []string{"a", "b", "c", "d", "a", "b", "0", "1", "3", "-", "~/x"}[r.IntN(11)]
}

// WithConfig replaces the section of the ConfigMap alone.
func (s *Section) WithConfig(config any, by Origin) (*Section, error) {
	return s.WithStored(config, s.secret, by, s.secretBy)
}

func add(path pointer, value any) Operation {
	return Operation{Op: "add", Path: path.String(), Value: value, HasValue: true}
}

func compiledSchema(t *testing.T, tree any) *schema {
	t.Helper()
	schemas, err := CompileSchemas(SchemaFile{}, SchemaFile{"values.yaml", []byte(jsonText(t, tree))})
	wantError(t, err)
	return schemas.values
}

// randomObjectSchema describes objects that name at least one key, lists of such objects, and integers.
func randomObjectSchema(r *rand.Rand, depth int) map[string]any {
	properties := map[string]any{}
	for range 1 + r.IntN(4) {
		switch child := randomElement(r); {
		case depth == 0 || r.IntN(3) == 0:
			properties[child] = map[string]any{"type": "integer"}
		case r.IntN(3) == 0:
			properties[child] = map[string]any{"type": "array", "items": randomObjectSchema(r, depth-1)}
		default:
			properties[child] = randomObjectSchema(r, depth-1)
		}
	}
	return map[string]any{"type": "object", "properties": properties}
}

// fittingValue is a value that fits the schema, most of the time.
func fittingValue(r *rand.Rand, schema map[string]any) any {
	switch schema["type"] {
	case "integer":
		return int64(r.IntN(9))
	case "array":
		list := []any{}
		items, _ := schema["items"].(map[string]any)
		for range r.IntN(3) {
			list = append(list, fittingValue(r, items))
		}
		return list
	}
	m := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range sortedKeys(properties) {
		if described, _ := properties[name].(map[string]any); r.IntN(3) > 0 {
			m[name] = fittingValue(r, described)
		}
	}
	if r.IntN(8) == 0 {
		m[randomElement(r)] = int64(1)
	}
	return m
}
