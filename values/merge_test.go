package values

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
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

// D7: filling in defaults twice changes nothing, keeps every value that is there, and leaves its argument alone.
func TestDefaultsLaws(t *testing.T) {
	filled := 0
	for seed := range often[uint64](1000) {
		r := rand.New(rand.NewPCG(seed, 10))
		schema := randomObjectSchema(r, 3)
		sprinkleDefaults(r, schema)
		fill := compiledSchema(t, schema)
		for range 4 {
			value := fittingValue(r, schema)
			before := jsonText(t, value)
			once, _ := fill.fill(value)
			if jsonText(t, value) != before {
				t.Fatalf("seed %d: the values were changed", seed)
			}
			if twice, _ := fill.fill(once); !reflect.DeepEqual(twice, once) {
				t.Fatalf("seed %d: not idempotent: %s, then %s", seed, jsonText(t, once), jsonText(t, twice))
			}
			if !keeps(once, value) {
				t.Fatalf("seed %d: %s became %s", seed, before, jsonText(t, once))
			}
			if jsonText(t, once) != before {
				filled++
			}
		}
	}
	if filled < often(500) {
		t.Errorf("only %d were filled; the test shows little", filled)
	}
}

func sprinkleDefaults(r *rand.Rand, schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range sortedKeys(properties) {
		property, _ := properties[name].(map[string]any)
		if items, ok := property["items"].(map[string]any); ok {
			sprinkleDefaults(r, items)
		}
		sprinkleDefaults(r, property)
		if r.IntN(2) == 0 {
			property["default"] = fittingValue(r, property)
		}
	}
}

// keeps reports whether everything in part is in whole.
func keeps(whole, part any) bool {
	switch p := part.(type) {
	case map[string]any:
		w, ok := whole.(map[string]any)
		for key, child := range p {
			ok = ok && keeps(w[key], child)
		}
		return ok
	case []any:
		w, ok := whole.([]any)
		ok = ok && len(w) == len(p)
		for i := range p {
			ok = ok && keeps(w[i], p[i])
		}
		return ok
	}
	return reflect.DeepEqual(whole, part)
}

// D5, D15: the order in which changes arrive does not matter for the layers below the patches, nor what was taken
// away.
func TestLayersDoNotDependOnHistory(t *testing.T) {
	schemas := schemasOf(t, "{additionalProperties: true, properties: {a: {default: 1}}}", "{additionalProperties: true, properties: {b: {default: 2}}}")
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 12))
		static, first, last := randomMap(r, 3), randomMap(r, 3), randomMap(r, 3)
		patch := Patch{add(pointer{"m", "x"}, randomTree(r, 2))}
		section, err := NewSection("m", schemas, Layer{Value: static})
		wantError(t, err)
		apply := func(s *Section, steps ...func(*Section) (*Section, error)) *Section {
			for _, step := range steps {
				s, err = step(s)
				wantError(t, err)
			}
			return s
		}
		config := func(tree any) func(*Section) (*Section, error) {
			return func(s *Section) (*Section, error) { return s.WithConfig(tree, Origin{}) }
		}
		hook := func(s *Section) (*Section, error) { return s.Patch(patch, Origin{}) }
		one := apply(section, config(first), hook, config(nil), config(last))
		other := apply(section, config(last), hook)
		if one.Checksum() != other.Checksum() {
			t.Fatalf("seed %d: %s and %s", seed, jsonText(t, one.Merged()), jsonText(t, other.Merged()))
		}
		if clean := apply(section, config(last)); one.WithoutPatches().Checksum() != clean.Checksum() {
			t.Fatalf("seed %d: forgotten patches leave traces", seed)
		}
	}
}

// Compiled schemas are shared by sections that are validated at the same time.
func TestSchemasAreSafeForConcurrentUse(t *testing.T) {
	schemas := schemasOf(t, "", "{properties: {a: {type: integer}, b: {oneOf: [{type: string}, {minimum: 3}]}, l: {type: array, uniqueItems: true}}, x-required-for-helm: a}")
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 50 {
				section, err := NewSection(fmt.Sprint("m", i), schemas, Layer{Value: map[string]any{"b": int64(j % 5), "l": []any{int64(1), int64(j % 2)}}})
				if err != nil {
					t.Error(err)
					return
				}
				if valid := section.ValidateValues() == nil; valid != (j%5 >= 3 && j%2 == 0) {
					t.Errorf("%d: valid is %v", j, valid)
				}
				if section.ValidateForHelm() == nil {
					t.Error("a is not missed")
				}
			}
		})
	}
	group.Wait()
}
