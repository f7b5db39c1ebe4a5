package values

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// D17
func TestParsePatchStreams(t *testing.T) {
	add := `{"op":"add","path":"/m/a","value":1}`
	remove := `{"op":"remove","path":"/m/b"}`
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"white space", " \n\t\n", nil},
		{"one operation", add, []string{"add /m/a"}},
		{"an array", "[" + add + "," + remove + "]", []string{"add /m/a", "remove /m/b"}},
		{"an empty array", "[]", nil},
		{"operations one after another", add + "\n" + remove, []string{"add /m/a", "remove /m/b"}},
		{"without anything between them", add + remove + "[" + add + "]", []string{"add /m/a", "remove /m/b", "add /m/a"}},
		{"arrays one after another", "[" + add + "]\n\n[" + remove + "]", []string{"add /m/a", "remove /m/b"}},
		{"printed nicely", "[\n  {\n    \"op\": \"add\",\n    \"path\": \"/m/a\",\n    \"value\": 1\n  }\n]\n", []string{"add /m/a"}},
		{"all operations, D18", `[{"op":"replace","path":"/m/a","value":null},{"op":"test","path":"/m/a","value":null},{"op":"move","from":"/m/a","path":"/m/b"},{"op":"copy","from":"/m/b","path":"/m/c"}]`,
			[]string{"replace /m/a", "test /m/a", "move /m/a to /m/b", "copy /m/b to /m/c"}},
		{"more fields than needed", `{"op":"remove","path":"/m/b","value":1,"comment":"x"}`, []string{"remove /m/b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			patch, warnings, err := ParsePatch([]byte(tc.text))
			wantError(t, err)
			var got []string
			for _, o := range patch {
				got = append(got, o.String())
			}
			if !reflect.DeepEqual(got, tc.want) || len(warnings) > 0 {
				t.Errorf("got %q, warnings %q", got, warnings)
			}
			if tc.want == nil && patch != nil {
				t.Error("a patch without operations is not nil")
			}
		})
	}
}

func TestParsePatchRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"garbage at the end, D17", `{"op":"remove","path":"/m/a"} garbage`, []string{"line 1", "not a stream"}},
		{"an unfinished array", "[\n", []string{"unexpected end"}},
		{"a number", "5", []string{"patch operation 1: must be an object like"}},
		{"null", "null", []string{"patch operation 1: must be an object"}},
		{"an array of numbers", "[5]", []string{"patch operation 1: must be an object like"}},
		{"an array in an array", "[[]]", []string{"patch operation 1"}},
		{"no op", `{"path":"/m/a"}`, []string{"patch operation 1: /m/a: op is missing"}},
		{"op is null", `{"op":null,"path":"/m/a"}`, []string{"op is missing"}},
		{"unknown op", `{"op":"set","path":"/m/a","value":1}`, []string{`op "set" is unknown; use add, remove, replace, test, move or copy`}},
		{"no path", `{"op":"remove"}`, []string{"path is missing"}},
		{"path is a number", `{"op":"remove","path":1}`, []string{"op, path and from must be strings"}},
		{"no value", `{"op":"add","path":"/m/a"}`, []string{"patch operation 1: add /m/a: value is missing"}},
		{"no value in test", `{"op":"test","path":"/m/a"}`, []string{"value is missing"}},
		{"a value out of range", `{"op":"add","path":"/m/a","value":1e999}`, []string{"does not fit"}},
		{"no from", `{"op":"move","path":"/m/a"}`, []string{"from is missing"}},
		{"empty path, D20", `{"op":"add","path":"","value":{}}`, []string{"is empty"}},
		{"empty element", `{"op":"add","path":"/m//a","value":{}}`, []string{"has an empty element"}},
		{"slash at the end", `{"op":"add","path":"/m/","value":{}}`, []string{"has an empty element"}},
		{"wrong escape", `{"op":"add","path":"/m/a~2","value":{}}`, []string{"write ~ as ~0"}},
		{"tilde at the end", `{"op":"add","path":"/m/a~","value":{}}`, []string{"write ~ as ~0"}},
		{"the first one", `[{"op":"remove","path":"/m/a"},{"op":"add","path":"/m/a"},{"op":"x"}]`, []string{"patch operation 2: add /m/a: value is missing"}},
		{"an integer that is too long", `{"op":"add","path":"/m/a","value":` + strings.Repeat("1", 101) + `}`, []string{"patch operation 1: add /m/a: value: an integer has more than 100 digits"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			patch, _, err := ParsePatch([]byte(tc.text))
			wantError(t, err, tc.want...)
			if patch != nil {
				t.Error("a faulty file gives a patch")
			}
		})
	}
}

// D38: what a hook writes is often a password.
func TestPatchErrorsHideValues(t *testing.T) {
	section := sectionOf(t, "m", nil, "{a: 1}", "")
	for _, text := range []string{
		`{"op":"add","path":"/m/x/password","value":"hunter2"}`,
		`{"op":"test","path":"/m/a","value":"hunter2"}`,
		`{"op":"replace","path":"/m/x","value":{"a":"hunter2"}}`,
	} {
		_, err := section.Patch(patchOf(t, text), Origin{})
		wantError(t, err, "/m/")
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the value is in the error: %v", err)
		}
	}
}

// D19
func TestParsePatchDottedPaths(t *testing.T) {
	patch, warnings, err := ParsePatch([]byte(`[{"op":"replace","path":"simpleOneModule.param2","value":1},{"op":"move","from":"m.a/b","path":"/m/x.y"}]`))
	wantError(t, err)
	if patch[0].Path != "/simpleOneModule/param2" || patch[1].From != "/m/a~1b" || patch[1].Path != "/m/x.y" {
		t.Errorf("got %v", patch)
	}
	want := []string{
		`patch path "simpleOneModule.param2" has the old dotted form; write "/simpleOneModule/param2"`,
		`patch path "m.a/b" has the old dotted form; write "/m/a~1b"`,
	}
	if !reflect.DeepEqual(warnings, want) {
		t.Errorf("warnings %q", warnings)
	}
}

func TestPatchJSON(t *testing.T) {
	text := `[{"op":"add","path":"/m/a~1b","value":{"b":[1,2.5,null,"<x>"],"z":12345678901234567890}},{"op":"add","path":"/m/n","value":null},{"op":"remove","path":"/m/c"},{"op":"move","path":"/m/d","from":"/m/e"}]`
	patch := patchOf(t, text)
	var buffer strings.Builder
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	wantError(t, encoder.Encode(patch))
	if got := strings.TrimSpace(buffer.String()); got != text {
		t.Errorf("got  %s\nwant %s", got, text)
	}
	_, _, err := ParsePatch([]byte(`[{"op":"add"}]`))
	wantError(t, err, "path is missing", "value is missing")
}

// D20, D25
func TestForGlobal(t *testing.T) {
	global, flags, err := patchOf(t, `[
		{"op":"add","path":"/global/a","value":1},
		{"op":"add","path":"/someModuleEnabled","value":true},
		{"op":"replace","path":"/otherModuleEnabled","value":"false"},
		{"op":"remove","path":"/thirdEnabled"},
		{"op":"copy","from":"/global/a","path":"/global/b"}
	]`).ForGlobal()
	wantError(t, err)
	if got := operations(global); len(got) != 2 || !strings.HasPrefix(got[1], "copy") {
		t.Errorf("global: %q", got)
	}
	yes, no := true, false
	if want := []Flag{{"someModuleEnabled", &yes}, {"otherModuleEnabled", &no}, {"thirdEnabled", nil}}; !reflect.DeepEqual(flags, want) {
		t.Errorf("flags: %v", flags)
	}
}

func TestForGlobalRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"op":"add","path":"/someModule/a","value":1}`:                      "global hooks may change only /global and flags",
		`{"op":"add","path":"/some-moduleEnabled","value":true}`:             "global hooks may change only /global and flags",
		`{"op":"copy","from":"/someModule/a","path":"/global/a"}`:            "global hooks may change only /global",
		`{"op":"add","path":"/someModuleEnabled","value":1}`:                 "value must be true or false, is an integer",
		`{"op":"add","path":"/someModuleEnabled","value":null}`:              "value must be true or false, is null",
		`{"op":"add","path":"/someModuleEnabled/x","value":true}`:            "is a flag and has no keys",
		`{"op":"test","path":"/someModuleEnabled","value":true}`:             "flags can only be added, replaced and removed",
		`[{"op":"remove","path":"/a"},{"op":"remove","path":"/bEnabled/c"}]`: "remove /a",
	} {
		global, flags, err := patchOf(t, text).ForGlobal()
		wantError(t, err, want)
		if global != nil || flags != nil {
			t.Errorf("%s: a refused patch has effects", text)
		}
	}
}

// D9: only the operator computes global.enabledModules.
func TestEnabledModulesAreNotPatched(t *testing.T) {
	for text, want := range map[string]string{
		`{"op":"add","path":"/global/enabledModules","value":[]}`:          "global.enabledModules is computed by the operator",
		`{"op":"add","path":"/global","value":{"enabledModules":["x"]}}`:   "global.enabledModules is computed by the operator",
		`{"op":"add","path":"/global/enabledModules/-","value":"x"}`:       "there is no /global/enabledModules",
		`{"op":"remove","path":"/global/enabledModules"}`:                  "there is no /global/enabledModules",
		`{"op":"copy","from":"/global/enabledModules","path":"/global/x"}`: "there is no /global/enabledModules",
		`{"op":"move","from":"/global/a","path":"/global/enabledModules"}`: "global.enabledModules is computed by the operator",
	} {
		wantError(t, second(sectionOf(t, GlobalKey, nil, "{a: 1}", "").Patch(patchOf(t, text), Origin{})), want)
	}
}

// D21, D18
func TestPatchIsStrict(t *testing.T) {
	static := "{a: {b: 1}, list: [x, {c: 2}], text: t, nothing: null, 'a/b~c': 1}"
	for _, tc := range []struct {
		name, patch, want string // what is added to or removed from static, in YAML
		err               string
	}{
		{name: "add", patch: `{"op":"add","path":"/m/a/x","value":[1]}`, want: "{a: {b: 1, x: [1]}}"},
		{name: "add replaces", patch: `{"op":"add","path":"/m/a","value":5}`, want: "{a: 5}"},
		{name: "insert into a list", patch: `{"op":"add","path":"/m/list/1","value":5}`, want: "{list: [x, 5, {c: 2}]}"},
		{name: "append", patch: `{"op":"add","path":"/m/list/-","value":5}`, want: "{list: [x, {c: 2}, 5]}"},
		{name: "append by index", patch: `{"op":"add","path":"/m/list/2","value":5}`, want: "{list: [x, {c: 2}, 5]}"},
		{name: "add in an element", patch: `{"op":"add","path":"/m/list/1/d","value":5}`, want: "{list: [x, {c: 2, d: 5}]}"},
		{name: "add null", patch: `{"op":"add","path":"/m/x","value":null}`, want: "{x: null}"},
		{name: "replace", patch: `{"op":"replace","path":"/m/a/b","value":5}`, want: "{a: {b: 5}}"},
		{name: "replace an element", patch: `{"op":"replace","path":"/m/list/0","value":5}`, want: "{list: [5, {c: 2}]}"},
		{name: "replace null", patch: `{"op":"replace","path":"/m/nothing","value":5}`, want: "{nothing: 5}"},
		{name: "move", patch: `{"op":"move","from":"/m/a/b","path":"/m/x"}`, want: "{a: {}, x: 1}"},
		{name: "move within a list", patch: `{"op":"move","from":"/m/list/0","path":"/m/list/-"}`, want: "{list: [{c: 2}, x]}"},
		{name: "move null", patch: `{"op":"move","from":"/m/nothing","path":"/m/nothing"}`, want: "{nothing: null}"},
		{name: "copy", patch: `{"op":"copy","from":"/m/list/1","path":"/m/a/x"}`, want: "{a: {b: 1, x: {c: 2}}}"},
		{name: "copy and its original are two", want: "{x: {v: {b: 2}, z: {b: 3}}}", patch: `[{"op":"add","path":"/m/x","value":{"v":{}}},` +
			`{"op":"add","path":"/m/x/v/b","value":1},{"op":"copy","from":"/m/x/v","path":"/m/x/z"},{"op":"add","path":"/m/x/v/b","value":2},{"op":"add","path":"/m/x/z/b","value":3}]`},
		{name: "test", patch: `[{"op":"test","path":"/m/a","value":{"b":1.0}},{"op":"add","path":"/m/x","value":1}]`, want: "{x: 1}"},
		{name: "test null", patch: `{"op":"test","path":"/m/nothing","value":null}`, want: "{}"},
		{name: "escapes", patch: `{"op":"replace","path":"/m/a~1b~0c","value":2}`, want: "{'a/b~c': 2}"},
		{name: "no operations", patch: `[]`, want: "{}"},
		{name: "one builds on the other", patch: `[{"op":"add","path":"/m/x","value":{}},{"op":"add","path":"/m/x/w","value":[]},{"op":"add","path":"/m/x/w/-","value":1}]`, want: "{x: {w: [1]}}"},

		{name: "remove of what is not there", patch: `{"op":"remove","path":"/m/x"}`, err: "patch operation 1, remove /m/x: there is no /m/x"},
		{name: "remove below what is not there", patch: `{"op":"remove","path":"/m/x/w"}`, err: "there is no /m/x"},
		{name: "add below a missing parent", patch: `{"op":"add","path":"/m/x/w","value":1}`, err: "there is no /m/x"},
		{name: "add below a text", patch: `{"op":"add","path":"/m/text/x","value":1}`, err: "/m/text is a string, which has no elements or keys"},
		{name: "add below null", patch: `{"op":"add","path":"/m/nothing/x","value":1}`, err: "/m/nothing is null"},
		{name: "index out of range", patch: `{"op":"add","path":"/m/list/3","value":1}`, err: `/m/list is a list of 2, "3" is not an index of it`},
		{name: "replace behind the end", patch: `{"op":"replace","path":"/m/list/2","value":1}`, err: `/m/list is a list of 2`},
		{name: "remove behind the end", patch: `{"op":"remove","path":"/m/list/-"}`, err: `"-" is not an index`},
		{name: "negative index", patch: `{"op":"remove","path":"/m/list/-1"}`, err: `"-1" is not an index`},
		{name: "replace of what is not there", patch: `{"op":"replace","path":"/m/x","value":1}`, err: "there is no /m/x"},
		{name: "index with a zero", patch: `{"op":"replace","path":"/m/list/01","value":1}`, err: `"01" is not an index`},
		{name: "index with a sign", patch: `{"op":"add","path":"/m/list/+1/d","value":1}`, err: `"+1" is not an index`},
		{name: "index minus zero", patch: `{"op":"remove","path":"/m/list/-0"}`, err: `"-0" is not an index`},
		{name: "index with a zero in a new list", patch: `[{"op":"add","path":"/m/x","value":[1]},{"op":"copy","from":"/m/x/00","path":"/m/w"}]`, err: `operation 2, copy /m/x/00 to /m/w: /m/x is a list of 1, "00" is not an index`},
		{name: "map with a number", patch: `[{"op":"add","path":"/m/a/01","value":1}]`, want: "{a: {b: 1, '01': 1}}"},
		{name: "test of a list with null", patch: `[{"op":"add","path":"/m/x","value":[null, {"y": null}]},{"op":"test","path":"/m/x","value":[null, {"y": null}]}]`, want: "{x: [null, {'y': null}]}"},
		{name: "test of null against a list", patch: `[{"op":"add","path":"/m/x","value":[null]},{"op":"test","path":"/m/x","value":[1]}]`, err: "operation 2, test /m/x: the test failed"},
		{name: "test against null in a list", patch: `{"op":"test","path":"/m/list","value":[null,null]}`, err: "the test failed"},
		{name: "test of what is not there", patch: `{"op":"test","path":"/m/x","value":null}`, err: "there is no /m/x"},
		{name: "move of an element into itself", patch: `{"op":"move","from":"/m/list/0","path":"/m/list/0/x"}`, err: "cannot be moved into itself"},
		{name: "tests between changes", patch: "[" + strings.Repeat(`{"op":"add","path":"/m/x","value":1},{"op":"test","path":"/m/x","value":1},`, 40) + `{"op":"remove","path":"/m/x"}]`, want: "{}"},
		{name: "failed test", patch: `{"op":"test","path":"/m/a/b","value":2}`, err: "the test failed"},
		{name: "move into itself", patch: `{"op":"move","from":"/m/a","path":"/m/a/x"}`, err: "cannot be moved into itself"},
		{name: "copy of what is not there", patch: `{"op":"copy","from":"/m/x","path":"/m/w"}`, err: "there is no /m/x"},
		{name: "the second one fails", patch: `[{"op":"add","path":"/m/x","value":1},{"op":"remove","path":"/m/w"}]`, err: "patch operation 2, remove /m/w"},
		{name: "another section", patch: `{"op":"add","path":"/other","value":{}}`, err: "hooks of this module may change only /m"},
		{name: "a flag", patch: `{"op":"add","path":"/mEnabled","value":true}`, err: "patch operation 1, add /mEnabled: hooks of this module may change only /m"},
		{name: "a section with a longer name", patch: `{"op":"add","path":"/m2","value":1}`, err: "hooks of this module may change only /m"},
		{name: "into another section", patch: `{"op":"move","from":"/m/a","path":"/global/a"}`, err: "hooks of this module may change only /m"},
		{name: "from another section", patch: `{"op":"copy","from":"/other","path":"/m/x"}`, err: "hooks of this module may change only /m"},
		{name: "the section becomes a text", patch: `{"op":"add","path":"/m","value":"text"}`, err: "section m after the patch: must be a map or a list, is a string"},
		{name: "the section becomes null", patch: `{"op":"add","path":"/m","value":null}`, err: "is null"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			section := sectionOf(t, "m", nil, static, "")
			before := section.Checksum()
			patched, err := section.Patch(patchOf(t, tc.patch), Origin{})
			if tc.err != "" {
				wantError(t, err, tc.err)
			} else {
				wantError(t, err)
				want := Merge(yamlTree(t, static), map[string]any{})
				for key, value := range yamlTree(t, tc.want).(map[string]any) {
					want = Operation{Op: "add", Value: value}.over(want, pointer{key}, nil)
				}
				wantTree(t, "patched", patched.Merged(), want)
			}
			if Checksum(section.Merged()) != before {
				t.Error("the section itself was changed")
			}
		})
	}
}

// D1: sections that are lists
func TestPatchOfListSections(t *testing.T) {
	section := sectionOf(t, "camel", nil, "[a, b]", "")
	for _, step := range []struct{ patch, want string }{
		{`{"op":"add","path":"/camel/-","value":"c"}`, "[a, b, c]"},
		{`{"op":"replace","path":"/camel/0","value":"x"}`, "[x, b, c]"},
		{`{"op":"remove","path":"/camel/1"}`, "[x, c]"},
		{`{"op":"move","from":"/camel/1","path":"/camel/0"}`, "[c, x]"},
		{`{"op":"remove","path":"/camel"}`, "[]"},
		{`{"op":"add","path":"/camel/0","value":1}`, "[1]"},
	} {
		var err error
		section, err = section.Patch(patchOf(t, step.patch), Origin{})
		wantError(t, err)
		wantYAML(t, step.patch, section.Merged(), step.want)
	}
	replayed, err := section.WithConfig(nil, Origin{})
	wantError(t, err)
	wantYAML(t, "replayed", replayed.Merged(), "[1]")
	_, err = section.Patch(patchOf(t, `{"op":"add","path":"/camel/x","value":1}`), Origin{})
	wantError(t, err, `/camel is a list of 1, "x" is not an index of it`)

	config, err := section.PatchConfig(patchOf(t, `{"op":"add","path":"/camel/-","value":"new"}`), Origin{}, true)
	wantError(t, err)
	wantYAML(t, "config", config.Config(), "[new]")
}
