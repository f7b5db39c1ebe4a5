package values

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// numbers are written in all the ways in which a tree, or a schema, may hold them.
func numbers() []any {
	return []any{
		int64(0), int64(1), 1.0, int64(-1), int64(10), int64(100), 0.1, -0.1, 0.5, 1e-7, 1.5, 1e17, int64(1e17), int64(1e17 + 1), 1e300, -1e300,
		json.Number("1000000000000000000000"), 1e21, json.Number("1000000000000000000001"), json.Number("1"), json.Number("1.0"), json.Number("1e0"),
		json.Number("10e-1"), json.Number("-0.0"), json.Number("0.5"), json.Number("5E-1"), 0.0, int64(1 << 53), float64(1 << 53), float64(1 << 54),
	}
}

// D39: elements are compared as the compiler does it, in linear time.
func TestUniqueItemsAgreeWithTheCompiler(t *testing.T) {
	schema := jsonschema.MustCompileString("unique.json", `{"uniqueItems": true}`)
	agree := func(list []any) bool {
		t.Helper()
		want := schema.Validate(list) == nil
		if got := (&checker{steps: maxSteps}).unique(list); got != want {
			t.Fatalf("%s: got %v, want %v", fmt.Sprint(list), got, want)
		}
		return want
	}
	for _, a := range numbers() {
		for _, b := range numbers() {
			agree([]any{a, b})
			agree([]any{[]any{a}, []any{b}})
		}
	}
	unique := 0
	for seed := range often[uint64](20_000) {
		r := rand.New(rand.NewPCG(seed, 13))
		list := make([]any, r.IntN(30))
		for i := range list {
			list[i] = randomValue(r, 3)
		}
		if agree(list) {
			unique++
		}
	}
	if unique < often(1000) {
		t.Errorf("%d were unique; the test shows little", unique)
	}
}

// randomValue is a tree with numbers of all kinds.
func randomValue(r *rand.Rand, depth int) any {
	switch kind := r.IntN(8); {
	case kind < 3:
		return numbers()[r.IntN(len(numbers()))]
	case kind < 5 || depth == 0:
		return []any{nil, true, false, "", "a", "b", "1", fmt.Sprint(r.IntN(1000))}[r.IntN(8)]
	case kind == 5:
		m := map[string]any{}
		for range r.IntN(4) {
			m[randomElement(r)] = randomValue(r, depth-1)
		}
		return m
	}
	list := []any{}
	for range r.IntN(4) {
		list = append(list, randomValue(r, depth-1))
	}
	return list
}

// Whatever is the same has the same hash.
func TestSameValuesAreFound(t *testing.T) {
	c := &checker{steps: maxSteps}
	for _, list := range [][]any{
		{map[string]any{"a": int64(1), "b": []any{1.0}}, map[string]any{"b": []any{int64(1)}, "a": 1.0}},
		{json.Number("10000000000000000000000"), 1e22},
	} {
		if c.unique(list) || !c.same(list[0], list[1]) {
			t.Errorf("%v is the same twice", list)
		}
	}
	for _, list := range [][]any{
		{[]any{"a", "b"}, []any{"ab"}, []any{[]any{"a"}, "b"}, []any{"a", []any{"b"}}, []any{[]any{}}, []any{}, map[string]any{}},
		{"1", int64(1), true, nil, "null", "true", int64(-1), 0.1, int64(10), map[string]any{"a": nil}, map[string]any{"b": nil}},
	} {
		if !c.unique(list) {
			t.Errorf("%v is never the same", list)
		}
	}
}

// D39: lists of the same shape cost no comparison of each with each, whatever their content.
func TestUniqueItemsAreLinear(t *testing.T) {
	shapes := []any{[]any{}}
	for len(shapes) < 5000 { // lists in lists of the same number, of which many have the same hash in the compiler
		for _, a := range slices.Clone(shapes) {
			shapes = append(shapes, []any{a, "x"}, []any{"x", a})
		}
	}
	c := &checker{steps: maxSteps}
	nodes := 0
	var count func(any)
	count = func(v any) {
		nodes++
		if list, ok := v.([]any); ok {
			for _, child := range list {
				count(child)
			}
		}
	}
	count(shapes)
	c.unique(shapes)
	if spent := maxSteps - c.steps; spent > 2*nodes {
		t.Errorf("%d steps for %d values", spent, nodes)
	}
}
