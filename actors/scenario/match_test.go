package scenario_test

import (
	"strings"
	"testing"

	"addon-operator/actors/scenario"
	"addon-operator/values"
)

// Only what is wanted counts, at every depth, and what differs is said with its place.
func TestDifference(t *testing.T) {
	got := map[string]any{"a": int64(1), "b": []any{map[string]any{"c": "x", "d": true}}, "e/f": "text", "n": nil}
	for name, c := range map[string]struct {
		want map[string]any
		says string // nothing: they are alike
	}{
		"a part":             {map[string]any{"a": int64(1)}, ""},
		"numbers are equal":  {map[string]any{"a": float64(1)}, ""},
		"part of an element": {map[string]any{"b": []any{map[string]any{"c": "x"}}}, ""},
		"absent":             {map[string]any{"z": nil, "n": nil}, ""},
		"a text that fits":   {map[string]any{"e/f": map[string]any{"$regex": "^t"}}, ""},
		"another value":      {map[string]any{"b": []any{map[string]any{"c": "y"}}}, `b[0].c must be "y", is "x"`},
		"a longer list":      {map[string]any{"b": []any{}}, "b must be []"},
		"not absent":         {map[string]any{"a": nil}, "a must be absent, is 1"},
		"missing":            {map[string]any{"z": true}, "z must be true, is absent; there are [a b e/f n]"},
		"no map":             {map[string]any{"a": map[string]any{"b": true}}, `a must be {"b":true}, is 1`},
		"a text that is not": {map[string]any{"e/f": map[string]any{"$regex": "^x"}}, `["e/f"] must match ^x, is "text"`},
		"no pattern":         {map[string]any{"a": map[string]any{"$regex": "("}}, "a: $regex"},
	} {
		t.Run(name, func(t *testing.T) {
			list := strings.Join(scenario.Difference("", c.want, got), "\n")
			if (c.says == "") != (list == "") || !strings.Contains(list, c.says) {
				t.Errorf("got %q, want %q", list, c.says)
			}
		})
	}
}

// Each matcher can match and can fail, and says what it wants.
func TestMatchers(t *testing.T) {
	got := map[string]any{
		"text": "one two", "list": []any{"a", map[string]any{"b": int64(1), "c": "x"}}, "nothing": nil, "map": map[string]any{"k": "v"}, "number": int64(3),
	}
	for _, c := range []struct{ want, says string }{
		{"{text: {$contains: two}}", ""},
		{"{text: {$contains: [two, one]}}", ""},
		{"{text: {$contains: three}}", `text must contain "three", is "one two"`},
		{"{list: {$contains: {b: 1}}}", ""},
		{"{list: {$contains: [a, {b: 2}]}}", `list must contain {"b":2}, is ["a",`},
		{"{z: {$contains: a}}", `z must contain "a", is absent; there are [list map nothing number text]`},
		{"{text: {$not: one}}", ""},
		{"{text: {$not: {$contains: one}}}", `text must not be {"$contains":"one"}, is "one two"`},
		{"{z: {$not: one}}", ""},
		{"{z: null, nothing: null, text: {$not: null}}", ""},
		{"{z: {$not: null}}", "z must not be absent, is absent"},
		{"{list: {$count: 2}, text: {$count: 7}, map: {$count: 1}, z: {$count: 0}}", ""},
		{"{list: {$count: 3}}", "list must count 3, counts 2"},
		{"{number: {$count: 1}}", "number cannot be counted: it is 3"},
		{"{list: {$jq: {'.[1].b + 1': 2, 'map(type)': [string, object]}}}", ""},
		{"{list: {$jq: {'.[1].c': z}}}", `list | .[1].c must be "z", is "x"`},
		{"{text: {$jq: {'.a': y}}}", "text | .a: "},
		{"{text: {$regex: ^one, $not: {$contains: three}}}", ""},
		{"{text: {$regex: ^one, $not: {$contains: two}}}", "text must not be"},
		{"{text: {$other: 1}}", `text must be {"$other":1}, is "one two"; matchers are [$contains $count`},
		{"{map: {$other: 1}}", `map["$other"] must be 1, is absent`},
	} {
		want, err := values.ParseYAML([]byte(c.want))
		if err != nil {
			t.Fatal(err)
		}
		list := strings.Join(scenario.Difference("", want, got), "\n")
		if (c.says == "") != (list == "") || !strings.Contains(list, c.says) {
			t.Errorf("%s: got %q, want %q", c.want, list, c.says)
		}
	}
}
