package values_test

import (
	"slices"
	"testing"

	"addon-operator/values"
)

// What is wrong is said with the keys as the document has them, and with the rule of the schema.
func TestMisfits(t *testing.T) {
	format, err := values.NewFormat("things", []byte(`{
		"properties": {"a": {"type": "array", "items": {"properties": {"b/c~d e.f": {"$ref": "#/definitions/small/n"}}}}},
		"definitions": {"small": {"n": {"maximum": 3, "description": "few"}}}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	misfits, err := format.Misfits(map[string]any{"a": []any{map[string]any{"b/c~d e.f": int64(7)}}})
	if err != nil || len(misfits) != 1 {
		t.Fatalf("got %v, %v", misfits, err)
	}
	m := misfits[0]
	if !slices.Equal(m.At, []string{"a", "0", "b/c~d e.f"}) || m.Keyword != "maximum" || m.Rule["description"] != "few" {
		t.Errorf("got %+v", m)
	}
	if misfits, err := format.Misfits(map[string]any{"a": []any{}}); err != nil || len(misfits) > 0 {
		t.Errorf("got %v, %v for a document that fits", misfits, err)
	}
	if _, err := values.NewFormat("things", []byte(`{"type": 1}`)); err == nil {
		t.Error("a schema that is none compiles")
	}
}
