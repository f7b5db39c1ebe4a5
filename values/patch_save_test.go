package values

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// D23: compaction never changes what replaying the list does, whatever the layers below have become. Random operations
// that need not fit at all are replayed over random trees, once all of them, once compacted.
func TestCompactionIsSound(t *testing.T) {
	for seed := range often[uint64](4000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var raw, compacted Patch
		for range 1 + r.IntN(12) {
			operation := randomOperation(r)
			raw = append(raw, operation)
			compacted = compact(compacted, operation)
		}
		for range 3 {
			lower := randomMap(r, 3)
			want, got := replayAll("m", lower, raw), replayAll("m", lower, compacted)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: replay over %s\n     raw %s\n      -> %s\ncompacted %s\n      -> %s",
					seed, jsonText(t, lower), operations(raw), jsonText(t, want), operations(compacted), jsonText(t, got))
			}
		}
	}
}

func randomOperation(r *rand.Rand) Operation {
	path := pointer{"m"}
	for range r.IntN(5) {
		path = append(path, randomElement(r))
	}
	if r.IntN(3) == 0 && len(path) > 1 { // the section itself is never removed, see removeSteps
		return Operation{Op: "remove", Path: path.String()}
	}
	if len(path) == 1 {
		return addition(path, randomMap(r, 2))
	}
	return addition(path, randomTree(r, 2))
}

// operations shows a patch with its values.
func operations(p Patch) []string {
	var texts []string
	for _, o := range p {
		text := o.String()
		if o.HasValue {
			value, err := JSON(o.Value)
			if err != nil {
				value = []byte(err.Error())
			}
			text += " " + string(value)
		}
		texts = append(texts, text)
	}
	return texts
}

// D22, D23: the merged values after a patch are what a replay of the saved operations over the same layers gives; so
// a later, unrelated change of the ConfigMap changes nothing else.
func TestSavedPatchesGiveTheSameValues(t *testing.T) {
	applied := 0
	for seed := range often[uint64](4000) {
		r := rand.New(rand.NewPCG(seed, 2))
		section, err := NewSection("m", nil, Layer{Value: randomMap(r, 3)})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			changed, err := section.Patch(Patch{randomRFCOperation(r, section.Merged())}, Origin{})
			if err != nil {
				continue // most random operations do not fit
			}
			section = changed
			applied++
			replayed, err := section.WithConfig(nil, Origin{})
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(section.Merged(), replayed.Merged()) {
				t.Fatalf("seed %d:\n merged %s\nreplayed %s\n%s", seed, jsonText(t, section.Merged()), jsonText(t, replayed.Merged()), operations(section.saved))
			}
		}
	}
	if applied < often(4000) {
		t.Errorf("only %d operations fitted; the test shows little", applied)
	}
}

// randomRFCOperation prefers paths that exist.
func randomRFCOperation(r *rand.Rand, tree any) Operation {
	o := Operation{
		Op:    []string{"add", "remove", "replace", "move", "copy", "test"}[r.IntN(6)],
		Path:  randomPath(r, tree).String(),
		Value: randomTree(r, 2), HasValue: true,
	}
	switch o.Op {
	case "move", "copy":
		o.From, o.Value, o.HasValue = randomPath(r, tree).String(), nil, false
	case "remove":
		o.Value, o.HasValue = nil, false
	}
	return o
}

func randomPath(r *rand.Rand, tree any) pointer {
	path := pointer{"m"}
	for r.IntN(5) > 0 {
		var element string
		switch container := tree.(type) {
		case map[string]any:
			element = randomElement(r)
			if keys := sortedKeys(container); len(keys) > 0 && r.IntN(4) > 0 {
				element = keys[r.IntN(len(keys))]
			}
		case []any:
			element = fmt.Sprint(r.IntN(len(container) + 2))
			if r.IntN(4) == 0 {
				element = "-"
			}
		default:
			return path
		}
		path = append(path, element)
		tree, _ = lookup(tree, pointer{element})
	}
	return path
}

func TestCompaction(t *testing.T) {
	for _, tc := range []struct {
		name  string
		patch string
		want  []string
	}{
		{
			// D23
			name:  "the last value of a path is kept",
			patch: `[{"op":"add","path":"/m/a","value":1},{"op":"add","path":"/m/b","value":2},{"op":"add","path":"/m/a","value":3}]`,
			want:  []string{"add /m/b 2", "add /m/a 3"},
		}, {
			// D23
			name:  "a value makes operations below it irrelevant",
			patch: `[{"op":"add","path":"/m/a/b","value":1},{"op":"add","path":"/m/a/c/-","value":2},{"op":"add","path":"/m/a","value":{}}]`,
			want:  []string{"add /m/a {}"},
		}, {
			// D23
			name:  "two appends to one list survive",
			patch: `[{"op":"add","path":"/m/l/-","value":1},{"op":"add","path":"/m/l/-","value":2}]`,
			want:  []string{"add /m/l/- 1", "add /m/l/- 2"},
		}, {
			// D23: the second add of /m/l/x would otherwise come to lie behind the append that may need the list
			name:  "nothing moves across an append in the same field",
			patch: `[{"op":"add","path":"/m/l/x","value":1},{"op":"add","path":"/m/l/-","value":2},{"op":"add","path":"/m/l/x","value":3}]`,
			want:  []string{"add /m/l/x 1", "add /m/l/- 2", "add /m/l/x 3"},
		}, {
			name:  "an append in another field does no harm",
			patch: `[{"op":"add","path":"/m/a","value":1},{"op":"add","path":"/m/l/-","value":2},{"op":"add","path":"/m/a","value":3}]`,
			want:  []string{"add /m/l/- 2", "add /m/a 3"},
		}, {
			// D22: replaying the first add creates /m/a when it is missing; the remove alone would not
			name:  "a remove keeps the parents that a dropped add created",
			patch: `[{"op":"add","path":"/m/a/b/c","value":1},{"op":"remove","path":"/m/a/b"}]`,
			want:  []string{"add /m/a/b {}", "remove /m/a/b"},
		}, {
			name:  "paths that only begin alike are different",
			patch: `[{"op":"add","path":"/m/ab","value":1},{"op":"add","path":"/m/a","value":2}]`,
			want:  []string{"add /m/ab 1", "add /m/a 2"},
		}, {
			name:  "the whole section replaces everything",
			patch: `[{"op":"add","path":"/m/a","value":1},{"op":"add","path":"/m/l/-","value":1},{"op":"add","path":"/m","value":{}}]`,
			want:  []string{"add /m {}"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var saved Patch
			for _, operation := range patchOf(t, tc.patch) {
				saved = compact(saved, operation)
			}
			if got := operations(saved); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// D23: a hook that touches a list at every run does not make the list of saved patches grow without end.
func TestSavedPatchesStayBounded(t *testing.T) {
	for _, tc := range []struct{ name, patch string }{
		{"the same key", `{"op":"add","path":"/m/key","value":%d}`},
		{"add and remove", `[{"op":"add","path":"/m/a/b%[1]d","value":{}},{"op":"remove","path":"/m/a/b%[1]d"},{"op":"remove","path":"/m/a"},{"op":"add","path":"/m/a","value":{}}]`},
		{"the first element", `{"op":"replace","path":"/m/list/0","value":%d}`},
		{"appends", `{"op":"add","path":"/m/list/-","value":%d}`},
		{"append and cut", `[{"op":"add","path":"/m/list/-","value":%d},{"op":"remove","path":"/m/list/0"}]`},
		{"numbers as keys", `{"op":"add","path":"/m/ports/8080","value":%d}`},
		{"the section is a list", `{"op":"add","path":"/l/-","value":%d}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key, static := "m", "{a: {}, list: [0], ports: {}}"
			if tc.name == "the section is a list" {
				key, static = "l", "[]"
			}
			section := sectionOf(t, key, nil, static, "")
			for i := range 1000 {
				var err error
				if section, err = section.Patch(patchOf(t, fmt.Sprintf(tc.patch, i)), Origin{}); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(section.saved); n > foldLimit+1 {
				t.Errorf("%d operations are saved", n)
			}
			replayed, err := section.WithConfig(nil, Origin{})
			wantError(t, err)
			wantTree(t, "replayed", replayed.Merged(), section.Merged())
		})
	}
}

func TestReplayIsLenient(t *testing.T) {
	for _, tc := range []struct {
		name, saved, lower, want string
	}{
		// D22
		{"remove of what is not there", `{"op":"remove","path":"/m/a/b"}`, "{x: 1}", "{x: 1}"},
		{"missing parents are created", `{"op":"add","path":"/m/a/b/c","value":1}`, "{}", "{a: {b: {c: 1}}}"},
		{"null is no parent", `{"op":"add","path":"/m/a/b","value":1}`, "{a: null}", "{a: {b: 1}}"},
		{"an append to nothing makes a list", `{"op":"add","path":"/m/a/-","value":1}`, "{}", "{a: [1]}"},
		{"the first element of nothing makes a list", `{"op":"add","path":"/m/a/0","value":1}`, "{}", "{a: [1]}"},
		{"a number that is no first index makes a map", `{"op":"add","path":"/m/ports/8080","value":1}`, "{}", `{ports: {"8080": 1}}`},
		{"an index beyond the end appends", `{"op":"add","path":"/m/a/5","value":1}`, "{a: [0]}", "{a: [0, 1]}"},
		{"an element that is gone is not made up", `{"op":"add","path":"/m/a/5/name","value":1}`, "{a: [{}]}", "{a: [{}]}"},
		{"a scalar in the way wins", `{"op":"add","path":"/m/a/b","value":1}`, "{a: text}", "{a: text}"},
		{"a list where a map was wins", `{"op":"add","path":"/m/a/b","value":1}`, "{a: [1]}", "{a: [1]}"},
		{"remove in a shorter list", `{"op":"remove","path":"/m/a/3"}`, "{a: [1]}", "{a: [1]}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lower := yamlTree(t, tc.lower)
			before := jsonText(t, lower)
			got := replayAll("m", lower, patchOf(t, tc.saved))
			wantYAML(t, "replayed", got, tc.want)
			if jsonText(t, lower) != before {
				t.Error("the tree below was changed")
			}
		})
	}
}
