package values

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// D6
func TestMerge(t *testing.T) {
	for _, tc := range []struct {
		name   string
		layers []string
		want   string
	}{
		{"maps are merged at every depth", []string{"{a: {b: {c: 1}, d: 1}}", "{a: {b: {e: 2}, d: 2}}"}, "{a: {b: {c: 1, e: 2}, d: 2}}"},
		{"lists are replaced as a whole", []string{"{a: [1, 2, 3]}", "{a: [4]}"}, "{a: [4]}"},
		{"an empty list replaces", []string{"{a: [1]}", "{a: []}"}, "{a: []}"},
		{"an empty map does not", []string{"{a: {b: 1}}", "{a: {}}"}, "{a: {b: 1}}"},
		{"null replaces and stays", []string{"{a: {b: 1}}", "{a: null}"}, "{a: null}"},
		{"a map replaces null", []string{"{a: null}", "{a: {b: 1}}"}, "{a: {b: 1}}"},
		{"a scalar replaces a map", []string{"{a: {b: 1}}", "{a: 1}"}, "{a: 1}"},
		{"a map replaces a list", []string{"{a: [1]}", "{a: {b: 1}}"}, "{a: {b: 1}}"},
		{"absent layers change nothing", []string{"", "{a: 1}", "", "{b: 2}", ""}, "{a: 1, b: 2}"},
		{"sections that are lists", []string{"[1, 2]", "[3]"}, "[3]"},
		{"later layers win", []string{"{a: 1}", "{a: 2}", "{a: 3}"}, "{a: 3}"},
		{"nothing at all", []string{"", ""}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var layers []any
			for _, text := range tc.layers {
				layers = append(layers, yamlTree(t, text))
			}
			wantYAML(t, "merged", Merge(layers...), tc.want)
			for i, text := range tc.layers {
				wantYAML(t, "layer", layers[i], text)
			}
		})
	}
	if Merge() != nil {
		t.Error("nothing merged is something")
	}
}

// D6: merging a layer twice changes nothing, the order of brackets does not matter, and layers stay as they are.
func TestMergeLaws(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 5))
		a, b, c := any(randomMap(r, 3)), any(randomMap(r, 3)), any(randomMap(r, 3))
		before := jsonText(t, []any{a, b, c})
		if got, want := Merge(a, b, b), Merge(a, b); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: not idempotent", seed)
		}
		if got := Merge(a, a); !reflect.DeepEqual(got, a) {
			t.Fatalf("seed %d: merging with itself changes", seed)
		}
		if got := Merge(a, map[string]any{}, b); !reflect.DeepEqual(got, Merge(a, b)) {
			t.Fatalf("seed %d: an empty map matters", seed)
		}
		if got, want := Merge(Merge(a, b), c), Merge(a, b, c); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: layers do not merge one after another", seed)
		}
		if jsonText(t, []any{a, b, c}) != before {
			t.Fatalf("seed %d: a layer was changed", seed)
		}
	}
}
