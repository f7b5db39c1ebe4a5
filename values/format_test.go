package values_test

import (
	"reflect"
	"testing"

	"addon-operator/values"
)

// What is wrong is said with the path in the document, and unknown keys with the one that was meant.
func TestFormat(t *testing.T) {
	format, err := values.NewFormat("things", []byte(`{
		"additionalProperties": false, "required": ["kind"],
		"properties": {"kind": {}, "list": {"type": "array", "items": {"properties": {"b/c~d e.f": {"$ref": "#/$defs/n"}}}}},
		"$defs": {"n": {"maximum": 3}}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range format.Violations(map[string]any{"lst": true, "list": []any{map[string]any{"b/c~d e.f": int64(7), "open": true}}, "other": nil}) {
		got = append(got, v.String())
	}
	want := []string{
		"kind: is required",
		`list[0]["b/c~d e.f"]: must be at most 3, is 7`,
		"lst: is not a known key; did you mean list?",
		"other: is not a known key; known are kind, list",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	if got := format.Violations(map[string]any{"kind": true}); len(got) > 0 {
		t.Errorf("got %v for a document that fits", got)
	}
	if _, err := values.NewFormat("things", []byte(`{"type": 1}`)); err == nil {
		t.Error("a schema that is none compiles")
	}
}
