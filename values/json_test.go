package values

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	sigsyaml "sigs.k8s.io/yaml"
)

// D4
func TestParseJSONNumbers(t *testing.T) {
	for text, want := range map[string]any{
		"1": int64(1), "-0": int64(0), "1000000": int64(1000000), "1e6": int64(1000000), "1.0": int64(1), "1.50": 1.5,
		"9223372036854775808": json.Number("9223372036854775808"), "-9223372036854775808": int64(math.MinInt64),
		"1e20": json.Number("100000000000000000000"), "1e200": 1e200, "9007199254740992.0": int64(1 << 53), "9007199254740994.0": int64(9007199254740994), "1e-7": 1e-7,
	} {
		got, err := ParseJSON([]byte(text))
		wantError(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %T %v, want %T %v", text, got, got, want, want)
		}
	}
}

func TestParseJSONRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":            "unexpected end",
		"{":           "unexpected end",
		"{} {}":       "line 1: more text",
		"{}\n\nx":     "line 3",
		"{\"a\":\n x": "line 2",
		"1e400":       "1e400 does not fit",
		"[1e400]":     "does not fit",
		`{"a":1e400}`: "does not fit",
	} {
		wantError(t, second(ParseJSON([]byte(text))), want)
	}
}

func TestJSONIsCanonical(t *testing.T) {
	for _, tc := range []struct {
		tree any
		want string
	}{
		{map[string]any{"b": int64(1), "a": []any{nil, true, "x"}, "": map[string]any{}}, `{"":{},"a":[null,true,"x"],"b":1}`},
		{"<a&b> ä", `"<a&b> ä"`},
		{"\u2028 \"q\" \\ \n\r\t\x01\x7f \xff.", `"\u2028 \"q\" \\ \n\r\t\u0001\u007f \ufffd."`},
		{[]any{1.5, float64(3), 1e20, 1e-9, 123456789.25, json.Number("18446744073709551616"), int64(-7), 5}, `[1.5,3,100000000000000000000,1e-9,123456789.25,18446744073709551616,-7,5]`},
	} {
		if got := jsonText(t, tc.tree); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
	for _, bad := range []any{math.NaN(), math.Inf(1), func() {}} {
		if text, err := JSON(bad); err == nil {
			t.Errorf("%v: got %s", bad, text)
		}
	}
}

// D27
func TestChecksum(t *testing.T) {
	equal := [][2]string{{"{a: 1, b: 2}", "{b: 2, a: 1}"}, {"{a: 1.0}", "{a: 1}"}, {"{a: yes}", "{a: true}"}, {"[]", "[]"}}
	for _, pair := range equal {
		if Checksum(yamlTree(t, pair[0])) != Checksum(yamlTree(t, pair[1])) {
			t.Errorf("%s and %s differ", pair[0], pair[1])
		}
	}
	different := []string{"{}", "[]", "", "{a: null}", "{a: 1}", "{a: '1'}", "{a: true}", "{a: 1.5}", "[1, 2]", "[2, 1]"}
	seen := map[string]string{}
	for _, text := range different {
		sum := Checksum(yamlTree(t, text))
		if other, twice := seen[sum]; twice {
			t.Errorf("%q and %q have the same checksum", text, other)
		}
		seen[sum] = text
		if len(sum) != 64 {
			t.Errorf("%q: checksum %q", text, sum)
		}
	}
	if Checksum(math.NaN()) == Checksum(nil) {
		t.Error("what is no tree looks like a tree")
	}
}

// D4: scalars mean what they mean to sigs.k8s.io/yaml; numbers keep their value.
func TestParseYAMLScalars(t *testing.T) {
	for text, want := range map[string]any{
		"1": int64(1), "-1": int64(-1), "+1": int64(1), "0x1F": int64(31), "0o17": int64(15), "017": int64(15), "0b11": int64(3), "-0b11": int64(-3),
		"1_000": int64(1000), "1000000": int64(1000000), "1e6": int64(1000000), "1.0": int64(1), "-0.0": int64(0),
		"9223372036854775807": int64(9223372036854775807), "9223372036854775808": json.Number("9223372036854775808"),
		"18446744073709551616": json.Number("18446744073709551616"), "-123456789012345678901234567890": json.Number("-123456789012345678901234567890"),
		"+18446744073709551616": json.Number("18446744073709551616"),
		"1.5":                   1.5, ".5": 0.5, "1.": int64(1), "1e20": json.Number("100000000000000000000"), "1.5e-7": 1.5e-7, "-.5": -0.5, "9007199254740993.0": 9007199254740992.0 + 0,
		"true": true, "yes": true, "on": true, "y": true, "Yes": true, "ON": true, "false": false, "no": false, "off": false, "n": false, "Off": false,
		"'yes'": "yes", `"on"`: "on", "yES": "yES", "oN": "oN", "'1'": "1", "'true'": "true", "|-\n  1": "1",
		"": nil, "~": nil, "null": nil, "Null": nil, "'null'": "null", "nULL": "nULL",
		"2001-01-01": "2001-01-01", "2001-12-14T21:59:43.1Z": "2001-12-14T21:59:43.1Z", "2001-12-14 21:59:43": "2001-12-14 21:59:43",
		"12:30:45": "12:30:45", "1.2.3": "1.2.3", "1e": "1e", "+": "+", "-.": "-.", "0x": "0x", "1e400": "1e400", "08": int64(8), "10.0.0.0/8": "10.0.0.0/8",
		"!!str 1": "1",
		"text":    "text", "a b": "a b", ".": ".", ".hidden": ".hidden", "=": "=",
	} {
		if want == 9007199254740992.0 {
			want = int64(9007199254740992)
		}
		t.Run(text, func(t *testing.T) {
			got, err := ParseYAML([]byte("a: " + text + "\n"))
			wantError(t, err)
			if m, _ := got.(map[string]any); !reflect.DeepEqual(m["a"], want) {
				t.Errorf("got %T %v, want %T %v", m["a"], m["a"], want, want)
			}
		})
	}
}

// D4: what both accept means the same to both.
func TestParseYAMLAgreesWithKubernetes(t *testing.T) {
	for _, text := range []string{
		"a: [yes, no, on, off, y, n, Y, N, YES, NO, ON, OFF, yEs, true, True, TRUE, tRUE]",
		"a: [~, null, Null, NULL, nuLL, '', \"\"]\nb:\nc: ''",
		"a: [0, 00, 08, 09, 010, 0o10, 0x10, 0X10, 0b10, -0b10, 1_000, _1, 1_, +5, -5, --5]",
		"a: [.5, 5., 5.e3, 1e3, 1E3, 1e+3, -1e-3, e3, 1e, .e3, 1.2.3, 0x1p3, Infinity, inf, nan]",
		"a: [2001-01-01, 2001-1-1, 2001-13-45, 2001-01-01 10:00:00, 2001-01-01T10:00:00Z, 2001-01-01t10:00:00+01:00, 12:30, 1:2:3]",
		"base: &b {x: 1, z: [1, 2]}\nother:\n  <<: *b\n  x: 2\nlist:\n- <<: [*b, {x: 5, w: 6}]\n  v: 1",
		"text: |\n  one\n  two\nfolded: >\n  one\n  two\n\n  three\nkeep: |+\n  x\n\nstrip: |-\n  x\n",
		"a: !!str 1",
		"# only a comment\n", "", "---\na: 1\n", "--- \n- 1\n- [2, {a: b}]\n", "a: 1\n...\n",
		"a: 'it''s'\nb: \"tab\\tnew\\nline \\u00e4\"\nc: \"\\x41\"",
		"{a: {b: {c: [1, {d: }]}}}",
		"tcp: {8080: default/web:80, 9090: a, 0x10: b, 017: c, 1_000: d, -5: e, +6: f}",
	} {
		var want any
		if err := sigsyaml.Unmarshal([]byte(text), &want); err != nil {
			t.Errorf("%q: the reference refuses: %v", text, err)
			continue
		}
		got, err := ParseYAML([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		reference, err := json.Marshal(want)
		wantError(t, err)
		tree, err := ParseJSON(reference)
		wantError(t, err)
		wantTree(t, text, got, tree)
	}
}

func TestParseYAMLRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"duplicate keys", "a: 1\nb: 2\na: 3\n", []string{`line 3: key "a" is already set in line 1`}},
		{"duplicate keys in JSON", `{"a":1,"a":2}`, []string{`line 1: key "a" is already set in line 1`}},
		{"duplicate keys in the depth", "a:\n  - {x: 1, x: 2}\n", []string{`line 2: key "x"`}},
		{"keys that are alike after unquoting", "a: 1\n'a': 2\n", []string{"line 2"}},
		{"fractions as keys", "a:\n  80.5: x\n  1.0: x\n  1e3: x", []string{`line 2: key 80.5 is a number, not a string; write "80.5" in quotes`}},
		{"an exponent as key", "a:\n  x: 1\n  1e3: x", []string{"line 3: key 1e3 is an integer"}},
		{"an integer as key twice", "a: {16: x, 0x10: x}", []string{`key "16" is already set in line 1`}},
		{"an integer and a text as key", "a: {16: x, '16': x}", []string{`key "16" is already set in line 1`}},
		{"an integer as key by an alias", "a: &port 80\n*port : x", []string{"line 2: key port is an integer"}},
		{"booleans as keys", "on: x\n", []string{`line 1: key on is a boolean, not a string; write "on" in quotes`}},
		{"null as key", "~: x\n", []string{"line 1: key ~ is null"}},
		{"lists as keys", "? [a]\n: x\n", []string{"line 1: key  is a list"}},
		{"the first problem", "a: 1\non: x\na: 2\nb: .inf\n", []string{"line 2: key on"}},
		{"infinity", "a: .inf\n", []string{"line 1: .inf: infinite"}},
		{"not a number", "a: .NaN\n", []string{"line 1"}},
		{"unknown tags", "a: !vault x\n", []string{"line 1: the tag !vault is not supported; remove it"}},
		{"unknown tags of lists", "a: !set [x]\n", []string{"line 1: the tag !set is not supported"}},
		{"a tag that does not fit", "a: !!int text\n", []string{"line 1"}},
		{"a list that is not closed", "a: [1\nb: 2\n", []string{"line 2: did not find expected ',' or ']'"}},
		{"a map that is not closed, where it begins", "x: 1\ny: {a: 1\nz: 2\n", []string{"line 2: did not find expected ',' or '}'"}},
		{"another indentation", "a: 1\nb:\n  c: 1\n d: 2\n", []string{"line 4: did not find expected key"}},
		{"a list that becomes a map, where it begins", "a:\n  - 1\n  b: 2\n", []string{"line 2: did not find expected '-' indicator"}},
		{"the end of the text", "a: [", []string{"line 1: did not find expected node content"}},
		{"two colons", "a: 1\nb: c: d\n", []string{"line 2: mapping values are not allowed"}},
		{"two colons in the first line", "a: b: c", []string{"line 1: mapping values are not allowed"}},
		{"a tab", "a: 1\n\tb: 2\n", []string{"line 2: found a tab"}},
		{"an unknown escape", "a: 1\nb: \"\\q\"\n", []string{"line 2: found unknown escape character"}},
		{"an undefined tag", "x: 1\ny: !z!q 1\n", []string{"line 2: found undefined tag handle"}},
		{"an unknown anchor", "a: *nowhere\nb: 1\n", []string{"unknown anchor 'nowhere'"}},
		{"tabs", "a:\n\tb: 1\n", []string{"line 2"}},
		{"two documents", "a: 1\n---\nb: 2\n", []string{"a second document"}},
		{"broken second document", "a: 1\n---\nb: [\n", []string{"line "}},
		{"an alias inside of itself", "a: &a [*a]\n", []string{"line 1: alias *a"}},
		{"an unknown alias", "a: *b\n", []string{"b"}},
		{"<< of a scalar", "a:\n  <<: 5\n", []string{"line 2: <<"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantError(t, second(ParseYAML([]byte(tc.text))), tc.want...)
		})
	}
}

func TestParseYAMLEmptyDocuments(t *testing.T) {
	for _, text := range []string{"", "\n", "# comment\n", "---\n", "---\n---\n", "~\n", "--- ~\n...\n"} {
		tree, err := ParseYAML([]byte(text))
		wantError(t, err)
		if tree != nil {
			t.Errorf("%q: got %v", text, tree)
		}
	}
}

func TestYAML(t *testing.T) {
	tree := map[string]any{
		"b":      map[string]any{"list": []any{int64(1), "two", []any{}, map[string]any{"k": "v", "a": nil}}, "empty": map[string]any{}},
		"a":      "text",
		"looks":  []any{"yes", "1", "1.5", "null", "~", "", "true", "on", "n", "2001-01-01", "1:30", "0x1f", "1e3", "- x", "a: b", "#", "=", "<<", "0o7", "1_0", ".inf", " x", "x ", "{", "@a", "*a", "&a", "!t", "%"},
		"lines":  "one\ntwo\n",
		"strip":  "one\ntwo",
		"keep":   "one\ntwo\n\n",
		"odd":    "one \ntwo\r\n\tthree",
		"big":    json.Number("123456789012345678901234567890"),
		"float":  0.1,
		"huge":   1e300,
		"yes":    true,
		"with.d": int64(-5),
		"nul\n":  "\x00\u2028\ufeff",
	}
	got, err := YAML(tree)
	wantError(t, err)
	want := `a: text
b:
  empty: {}
  list:
    - 1
    - two
    - []
    - a: null
      k: v
big: 123456789012345678901234567890
float: 0.1
huge: 1e+300
keep: |+
  one
  two

lines: |
  one
  two
looks:
  - "yes"
  - "1"
  - "1.5"
  - "null"
  - "~"
  - ""
  - "true"
  - "on"
  - "n"
  - "2001-01-01"
  - "1:30"
  - "0x1f"
  - "1e3"
  - '- x'
  - 'a: b'
  - '#'
  - =
  - <<
  - "0o7"
  - "1_0"
  - ".inf"
  - ' x'
  - 'x '
  - '{'
  - '@a'
  - '*a'
  - '&a'
  - '!t'
  - '%'
? |
  nul
: "\0\L\uFEFF"
odd: "one \ntwo\r\n\tthree"
strip: |-
  one
  two
with.d: -5
"yes": true
`
	if string(got) != want {
		t.Errorf("got\n%s", got)
	}
	wantTree(t, "read again", yamlTree(t, string(got)), tree)
}

// What the library cannot write is JSON, without the line breaks that only YAML has: other tools read it as YAML.
func TestYAMLOddBreaks(t *testing.T) {
	tree := map[string]any{"\t\n": "x\u0085y\u2028z"}
	text, err := YAML(tree)
	wantError(t, err)
	wantTree(t, string(text), yamlTree(t, string(text)), any(tree))
	var other any
	wantError(t, sigsyaml.Unmarshal(text, &other))
	wantTree(t, string(text), other, any(tree))
}

// The text of a section is read by our parser, by users' tools and by kubectl: all see the same values.
func TestYAMLRoundTrip(t *testing.T) {
	for seed := range uint64(1000) {
		tree := randomMap(rand.New(rand.NewPCG(seed, 3)), 4)
		text, err := YAML(tree)
		wantError(t, err)
		wantTree(t, string(text), yamlTree(t, string(text)), any(tree))
		var other any
		if err := sigsyaml.Unmarshal(text, &other); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if Checksum(normalised(t, other)) != Checksum(tree) {
			t.Fatalf("sigs.k8s.io/yaml reads something else:\n%s", text)
		}
		again, err := YAML(yamlTree(t, string(text)))
		wantError(t, err)
		if !bytes.Equal(again, text) {
			t.Fatalf("not stable:\n%s\n%s", text, again)
		}
	}
}

func normalised(t testing.TB, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	wantError(t, err)
	tree, err := ParseJSON(text)
	wantError(t, err)
	return tree
}

// D39: JSON is read also with what the YAML library does not read, by the same rules.
func TestParseYAMLReadsJSON(t *testing.T) {
	for text, want := range map[string]any{
		`{"a":"\ud83d\ude00 \/ \u00e4"}`:                             map[string]any{"a": "😀 / ä"},
		"[\"\\/\", 1, 1.0, 1e3,\n 12345678901234567890, true, null]": []any{"/", int64(1), int64(1), int64(1000), json.Number("12345678901234567890"), true, nil},
		`"\ud83d\ude00"`: "😀",
		`{"` + strings.Repeat("k", 2000) + `":"\/"}`: map[string]any{strings.Repeat("k", 2000): "/"},
		"\t{\n\t\t\"a\": \"\\/\"\n\t}\n":             map[string]any{"a": "/"},
	} {
		got, err := ParseYAML([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%.80s: got %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		`["\/",` + strings.Repeat("[", 100) + strings.Repeat("]", 101): "nested more than 100 deep",
		`["\/"` + strings.Repeat(",1", 200_000) + "]":                  "more than 1 MiB, or more than 50000",
		`["\/",` + strings.Repeat("9", 101) + "]":                      "more than 100 digits",
		`{"a":"\/"`: "line 1",
	} {
		if got, err := ParseYAML([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, %v, want %s", text, got, err, want)
		}
	}
}

// A section that is JSON can be edited.
func TestEditOnlyJSON(t *testing.T) {
	edited, err := Edit{Path: []string{"app", "b"}, Value: int64(2)}.Apply(map[string]string{"app": `{"a":"\ud83d\ude00"}`})
	if err != nil || edited.Text == nil || *edited.Text != `{"a":"😀","b":2}` {
		t.Errorf("got %+v, %v", edited, err)
	}
}
