package values

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
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

// D21: the strict way agrees with a reading of the RFC that is as plain as can be: everything is copied, then changed
// in place.
func TestPatchAgreesWithThePlainReading(t *testing.T) {
	fitting := 0
	for seed := range uint64(6000) {
		r := rand.New(rand.NewPCG(seed, 9))
		section, err := NewSection("m", nil, Layer{Value: randomMap(r, 3)})
		wantError(t, err)
		var patch Patch
		for range 1 + r.IntN(3) {
			patch = append(patch, randomRFCOperation(r, section.Merged()))
		}
		if slices.ContainsFunc(patch, func(o Operation) bool { return o.Path == "/m" || o.From == "/m" }) {
			continue // a section has rules of its own: it never goes and is never a scalar
		}
		got, err := section.Patch(patch, Origin{})
		want, plainErr := plainPatch(map[string]any{"m": section.Merged()}, patch)
		if (err == nil) != (plainErr == nil) {
			t.Fatalf("seed %d: %v, the plain reading says %v\n%s\n%s", seed, err, plainErr, jsonText(t, section.Merged()), operations(patch))
		}
		if err != nil {
			continue
		}
		fitting++
		if plain, _ := lookup(want, pointer{"m"}); !reflect.DeepEqual(got.Merged(), plain) {
			t.Fatalf("seed %d:\n got %s\nwant %s\n%s", seed, jsonText(t, got.Merged()), jsonText(t, plain), operations(patch))
		}
	}
	if fitting < 1000 {
		t.Errorf("only %d patches fitted; the test shows little", fitting)
	}
}

var errPlain = errors.New("does not fit")

func plainPatch(tree any, patch Patch) (any, error) {
	tree = deepCopy(tree)
	for _, o := range patch {
		var err error
		if tree, err = plainOperation(tree, o); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

func plainOperation(tree any, o Operation) (any, error) {
	path, from := mustPointer(o.Path), mustPointer(o.From)
	value := o.Value
	if o.From != "" {
		moved, ok := lookup(tree, from)
		if !ok || (o.Op == "move" && len(path) > len(from) && from.contains(path)) {
			return nil, errPlain
		}
		value = moved
	}
	old, there := lookup(tree, path)
	if !there && (o.Op == "remove" || o.Op == "replace" || o.Op == "test") {
		return nil, errPlain
	}
	var err error
	switch o.Op {
	case "test":
		if !equal(old, value) {
			err = errPlain
		}
		return tree, err
	case "remove":
		return plainRemove(tree, path)
	case "replace":
		tree, err = plainRemove(tree, path)
	case "move":
		tree, err = plainRemove(tree, from)
	}
	if err != nil {
		return nil, err
	}
	return plainAdd(tree, path, deepCopy(value))
}

func plainAdd(tree any, path pointer, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	switch container := tree.(type) {
	case map[string]any:
		child, there := container[path[0]]
		if !there && len(path) > 1 {
			return nil, errPlain
		}
		changed, err := plainAdd(child, path[1:], value)
		container[path[0]] = changed
		return container, err
	case []any:
		index, ok := listIndex(path[0])
		if path[0] == "-" && len(path) == 1 {
			return append(container, value), nil
		}
		if !ok || index > len(container) || (index == len(container) && len(path) > 1) {
			return nil, errPlain
		}
		if len(path) == 1 {
			return slices.Insert(container, index, value), nil
		}
		changed, err := plainAdd(container[index], path[1:], value)
		container[index] = changed
		return container, err
	}
	return nil, errPlain
}

func plainRemove(tree any, path pointer) (any, error) {
	switch container := tree.(type) {
	case map[string]any:
		if len(path) == 1 {
			delete(container, path[0])
			return container, nil
		}
		changed, err := plainRemove(container[path[0]], path[1:])
		container[path[0]] = changed
		return container, err
	case []any:
		index, _ := listIndex(path[0])
		if len(path) == 1 {
			return slices.Delete(container, index, index+1), nil
		}
		changed, err := plainRemove(container[index], path[1:])
		container[index] = changed
		return container, err
	}
	return nil, errPlain
}

func deepCopy(tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, child := range v {
			m[key] = deepCopy(child)
		}
		return m
	case []any:
		list := []any{}
		for _, child := range v {
			list = append(list, deepCopy(child))
		}
		return list
	}
	return tree
}
