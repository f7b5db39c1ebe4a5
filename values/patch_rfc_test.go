package values

import (
	"testing"
)

// D18: the examples of RFC 6902, appendix A, moved into a section.
func TestPatchExamplesOfTheRFC(t *testing.T) {
	for _, tc := range []struct{ name, before, patch, want string }{
		{"A.1 adding an object member", "{foo: bar}", `[{"op":"add","path":"/m/baz","value":"qux"}]`, "{baz: qux, foo: bar}"},
		{"A.2 adding an array element", "{foo: [bar, baz]}", `[{"op":"add","path":"/m/foo/1","value":"qux"}]`, "{foo: [bar, qux, baz]}"},
		{"A.3 removing an object member", "{baz: qux, foo: bar}", `[{"op":"remove","path":"/m/baz"}]`, "{foo: bar}"},
		{"A.4 removing an array element", "{foo: [bar, qux, baz]}", `[{"op":"remove","path":"/m/foo/1"}]`, "{foo: [bar, baz]}"},
		{"A.5 replacing a value", "{baz: qux, foo: bar}", `[{"op":"replace","path":"/m/baz","value":"boo"}]`, "{baz: boo, foo: bar}"},
		{"A.6 moving a value", "{foo: {bar: baz, waldo: fred}, qux: {corge: grault}}", `[{"op":"move","from":"/m/foo/waldo","path":"/m/qux/thud"}]`, "{foo: {bar: baz}, qux: {corge: grault, thud: fred}}"},
		{"A.7 moving an array element", "{foo: [all, grass, cows, eat]}", `[{"op":"move","from":"/m/foo/1","path":"/m/foo/3"}]`, "{foo: [all, cows, eat, grass]}"},
		{"A.8 testing a value: success", "{baz: qux, foo: [a, 2, c]}", `[{"op":"test","path":"/m/baz","value":"qux"},{"op":"test","path":"/m/foo/1","value":2}]`, "{baz: qux, foo: [a, 2, c]}"},
		{"A.10 adding a nested member object", "{foo: bar}", `[{"op":"add","path":"/m/child","value":{"grandchild":{}}}]`, "{foo: bar, child: {grandchild: {}}}"},
		{"A.11 ignoring unrecognized elements", "{foo: bar}", `[{"op":"add","path":"/m/baz","value":"qux","xyz":123}]`, "{foo: bar, baz: qux}"},
		{"A.14 ~ escape ordering", `{"/": 9, "~1": 10}`, `[{"op":"test","path":"/m/~01","value":10}]`, `{"/": 9, "~1": 10}`},
		{"A.16 adding an array value", "{foo: [bar]}", `[{"op":"add","path":"/m/foo/-","value":["abc","def"]}]`, "{foo: [bar, [abc, def]]}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantYAML(t, "patched", patched(t, sectionOf(t, "m", nil, tc.before, ""), tc.patch).Merged(), tc.want)
		})
	}
	_, _, err := ParsePatch([]byte(`[{"op":"add","path":"/m/baz","value":"qux","op":"remove"}]`))
	wantError(t, err, "patch operation 1: remove /m/baz: duplicate field \"op\"") // A.13 invalid JSON patch document
	for _, tc := range []struct{ name, before, patch, want string }{
		{"A.9 testing a value: error", "{baz: qux}", `[{"op":"test","path":"/m/baz","value":"bar"}]`, "the test failed"},
		{"A.12 adding to a nonexistent target", "{foo: bar}", `[{"op":"add","path":"/m/baz/bat","value":"qux"}]`, "there is no /m/baz"},
		{"A.15 comparing strings and numbers", `{"/": 9, "~1": 10}`, `[{"op":"test","path":"/m/~01","value":"10"}]`, "the test failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := sectionOf(t, "m", nil, tc.before, "").Patch(patchOf(t, tc.patch), Origin{})
			wantError(t, err, tc.want)
		})
	}
}
