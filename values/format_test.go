package values_test

import (
	"testing"

	"addon-operator/values"
)

// A schema that is none is an error, and what is wrong with a document is said with its place.
func TestFormat(t *testing.T) {
	if _, err := values.NewFormat("things", []byte(`{"type": 1}`)); err == nil {
		t.Error("a schema that is none compiles")
	}
	format, err := values.NewFormat("things", []byte(`{"properties": {"a": {"type": "array", "items": {"maximum": 3}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		n    int64
		says string
	}{{3, ""}, {7, "a[0]: must be at most 3, is 7"}} {
		got := ""
		violations, err := format.Violations(map[string]any{"a": []any{c.n}})
		for _, v := range violations {
			got += v.String()
		}
		if err != nil || got != c.says {
			t.Errorf("%d: got %q, %v", c.n, got, err)
		}
	}
}
