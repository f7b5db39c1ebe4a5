package values

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// Only what a patch can reach is written out.
func TestCutLeavesTheRestOut(t *testing.T) {
	tree := yamlTree(t, "{m: {a: {b: {c: {d: 1}}, big: {x: 1}}, list: [{e: {f: 1}}, [2]], text: t, other: [1, 2]}}")
	for _, tc := range []struct{ name, path, want string }{
		{"one key", "/m/a/b", "{m: {a: {b: {c: {d: 1}}}}}"},
		{"a new key", "/m/a/b/c/new", "{m: {a: {b: {c: {}}}}}"},
		{"through a list", "/m/list/0/e", "{m: {list: [{e: {f: 1}}, [2]]}}"},
		{"below a scalar", "/m/text/x", "{m: {text: t}}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			paths := []pointer{mustPointer(tc.path)}
			part := cut(tree, paths)
			wantYAML(t, "cut", part, tc.want)
			wantTree(t, "joined", join(tree, part, paths), tree)
		})
	}
	wantTree(t, "all of it", cut(tree, []pointer{mustPointer("/m/a"), mustPointer("/m")}), tree)
}

// Whatever the paths, a part joins the tree that it was cut from.
func TestCutAndJoin(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 8))
		var tree any = map[string]any{"m": randomMap(r, 4)}
		var paths []pointer
		for range 1 + r.IntN(4) {
			paths = append(paths, randomPath(r, tree.(map[string]any)["m"]))
		}
		if again := join(tree, cut(tree, paths), paths); !reflect.DeepEqual(again, tree) {
			t.Fatalf("seed %d: %s became %s", seed, jsonText(t, tree), jsonText(t, again))
		}
	}
}

// A patch of one value shares everything else with the section before it.
func TestPatchSharesTheRest(t *testing.T) {
	big := map[string]any{"x": []any{int64(1)}}
	section, err := NewSection("m", nil, Layer{Value: map[string]any{"big": big, "a": int64(1)}})
	wantError(t, err)
	changed := patched(t, section, `{"op":"add","path":"/m/a","value":2}`)
	after, _ := lookup(changed.Merged(), pointer{"big"})
	if reflect.ValueOf(after).Pointer() != reflect.ValueOf(big).Pointer() {
		t.Error("what the patch does not touch was copied")
	}
}
