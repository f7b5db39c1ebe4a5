package values

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// Only what a patch can reach is written out.
func TestExcerptHidesTheRest(t *testing.T) {
	tree := yamlTree(t, "{m: {a: {b: {c: {d: 1}}, big: {x: 1}}, list: [{e: {f: 1}}, [2]], text: t, other: [1, 2]}}")
	for _, tc := range []struct {
		name  string
		paths []string
		want  []string // containers that stand in the text
		not   []string
	}{
		{"one key", []string{"/m/a/b"}, []string{`"a"`, `"b"`, `"big"`, `"text":"t"`}, []string{`"c"`, `"x"`, `"e"`}},
		{"deep", []string{"/m/a/b/c/new"}, []string{`"c"`, `"d":1`}, []string{`"x"`}},
		{"through a list", []string{"/m/list/0/e"}, []string{`"e"`}, []string{`"f"`, `"b"`}},
		{"the section", []string{"/m"}, []string{`"m"`}, []string{`"a"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var paths []pointer
			for _, path := range tc.paths {
				paths = append(paths, mustPointer(path))
			}
			var hidden excerpt
			text, err := hidden.write(nil, tree, paths)
			wantError(t, err)
			for _, word := range tc.want {
				if !strings.Contains(string(text), word) {
					t.Errorf("%s is missing in %s", word, text)
				}
			}
			for _, word := range tc.not {
				if strings.Contains(string(text), word) {
					t.Errorf("%s is in %s", word, text)
				}
			}
			again, err := hidden.read(text)
			wantError(t, err)
			wantTree(t, "read again", again, tree)
		})
	}
}

// Whatever the paths, reading gives what was written.
func TestExcerptRoundTrip(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 8))
		var tree any = map[string]any{"m": randomMap(r, 4)}
		var paths []pointer
		for range r.IntN(4) {
			paths = append(paths, randomPath(r, tree.(map[string]any)["m"]))
		}
		var hidden excerpt
		text, err := hidden.write(nil, tree, paths)
		wantError(t, err)
		again, err := hidden.read(text)
		wantError(t, err)
		if !reflect.DeepEqual(again, tree) {
			t.Fatalf("seed %d: %s became %s", seed, jsonText(t, tree), jsonText(t, again))
		}
	}
}

func TestExcerptRefusesForeignText(t *testing.T) {
	var hidden excerpt
	for _, text := range []string{"[0e0]", "{", `{"a": 7e0}`, "[1e999]", "[xe0]"} {
		if tree, err := hidden.read([]byte(text)); err == nil {
			t.Errorf("%s: got %v", text, tree)
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
