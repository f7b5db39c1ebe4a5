package values

import (
	"reflect"
	"strings"
	"testing"
)

// edited applies an edit to the section web; value "" removes.
func edited(t *testing.T, text, path, value string) (string, error) {
	t.Helper()
	elements, err := ParsePath(path)
	must(t, err)
	tree, err := ParseYAML([]byte(value))
	must(t, err)
	e, err := Edit{Path: elements, Value: tree, Remove: value == ""}.Apply(map[string]string{"web": text})
	if err != nil || e.Text == nil {
		return "", err
	}
	return *e.Text, nil
}

// All other values, comments and the order of keys stay. D24.
func TestEdit(t *testing.T) {
	for name, c := range map[string]struct{ text, path, value, want string }{
		"a key that is an integer":      {"p: {0x10: a}\nq:\n  8080: a # one\n", "web.q.8080", "b", "p: {0x10: a}\nq:\n  8080: b # one\n"},
		"a number":                      {"# head\na:   1   # one\nb: 'x'\n", "web.a", "2", "# head\na: 2 # one\nb: 'x'\n"},
		"a text with quotes":            {"a: \"x \\\" y\" # c\nb: 2", "web.a", "plain", "a: plain # c\nb: 2\n"},
		"single quotes":                 {"a: 'it''s' # c\n", "web.a", "'yes'", "a: \"yes\" # c\n"},
		"deep":                          {"a:\n    b:  # about b\n        c: 1\n        d: 2\n", "web.a.b.c", "3", "a:\n  b: # about b\n    c: 3\n    d: 2\n"},
		"a new key":                     {"a:\n  b: 1 # one\n  # the end of a\nz: 1\n", "web.a.c", "2", "a:\n  b: 1 # one\n  # the end of a\n\n  c: 2\nz: 1\n"},
		"a new key below new keys":      {"a: 1\n", "web.b.c.d", "[1]", "a: 1\nb:\n  c:\n    d:\n      - 1\n"},
		"without an end of line":        {"a: 1", "web.b", "2", "a: 1\nb: 2\n"},
		"CRLF":                          {"a: 1\r\nb:\r\n  c: 2\r\nd: 3\r\n", "web.b.e.f", "x", "a: 1\nb:\n  c: 2\n  e:\n    f: x\nd: 3\n"},
		"CRLF, removed":                 {"a: 1\r\nb: 2 # two\r\nd: 3\r\n", "web.b", "", "a: 1\nd: 3\n"},
		"an empty section":              {"", "web.a.b", "1", "a:\n  b: 1\n"},
		"only comments":                 {"---\n# nothing yet", "web.a", "1", "---\n# nothing yet\na: 1\n"},
		"an empty map at the root":      {"{} # none\n", "web.a", "1", "a: 1\n"},
		"a value that is not written":   {"a: # none\nb: 1\n", "web.a", "1", "a: 1 # none\nb: 1\n"},
		"below null":                    {"a: null # none\nb: 1\n", "web.a.c", "1", "a: # none\n  c: 1\nb: 1\n"},
		"flow":                          {"a: {b: 1, c: [1, 2]} # c\n", "web.a.b", "two words", "a: {b: two words, c: [1, 2]} # c\n"},
		"flow, a new key":               {"a: {b: 1, c: [1, 2] } # c\n", "web.a.d", "{x: 1}", "a: {b: 1, c: [1, 2], d: {x: 1}} # c\n"},
		"flow, an element":              {"a: {c: [1, 2]}\n", "web.a.c[1]", "5", "a: {c: [1, 5]}\n"},
		"flow, appended":                {"a: [1, # one\n  2]\n", "/web/a/-", "3", "a: [1, # one\n  2, 3]\n"},
		"flow, the first removed":       {"a: {b: 1, c: 2}\n", "web.a.b", "", "a: {c: 2}\n"},
		"flow, the last removed":        {"a: [1, 2, 3 ]\n", "web.a[2]", "", "a: [1, 2]\n"},
		"flow, the only one removed":    {"a: {b: 1,}\n", "web.a.b", "", "a: {}\n"},
		"JSON":                          {`{"a": {"b": 1}, "c": "}"}`, "web.a.b", "2", "{\"a\": {\"b\": 2}, \"c\": \"}\"}\n"},
		"a list in lines":               {"a:\n- x # first\n- y\nb: 1\n", "web.a[1]", "z", "a:\n  - x # first\n  - z\nb: 1\n"},
		"appended":                      {"a:\n- x\n- y # last\nb: 1\n", "/web/a/-", "{k: 1, l: 2}", "a:\n  - x\n  - y # last\n  - k: 1\n    l: 2\nb: 1\n"},
		"a key of a map in a list":      {"a:\n  - name: x # n\n    v: 1\n  - name: y\n", "web.a[0].v", "2", "a:\n  - name: x # n\n    v: 2\n  - name: y\n"},
		"the first key of such a map":   {"a:\n  - name: x\n    v: 1\n", "web.a[0].name", "", "a:\n  - v: 1\n"},
		"the same with a comment":       {"a:\n  - name: x\n    # about v\n    v: 1\n", "web.a[0].name", "", "a:\n  - # about v\n    v: 1\n"},
		"an element removed":            {"a:\n  - x\n  - y # y\n  - z\n", "web.a[1]", "", "a:\n  - x\n  - z\n"},
		"the only element removed":      {"a:\n  - x\nb: 1\n", "web.a[0]", "", "a: []\nb: 1\n"},
		"the only key removed":          {"a: # about a\n  b: 1\nc: 1\n", "web.a.b", "", "a: {} # about a\nc: 1\n"},
		"a list is the section":         {"- x\n- y\n", "web[0]", "z", "- z\n- y\n"},
		"the last key removed":          {"# of the team\na: 1\n", "web.a", "", ""},
		"a key at the end":              {"a: 1\nb: 2", "web.b", "", "a: 1\n"},
		"a literal":                     {"a: |\n  x\n\n  y\nb: 1\n", "web.a", "short", "a: short\nb: 1\n"},
		"a literal by a literal":        {"a: |-\n  x\nb: 1\n", "web.a", "\"p\\nq\\n\"", "a: |\n  p\n  q\nb: 1\n"},
		"behind a literal":              {"a: |\n  x\n  # no comment\n\n# comment\n", "web.b", "1", "a: |\n  x\n  # no comment\nb: 1\n\n# comment\n"},
		"behind a literal that keeps":   {"a:\n  t: |+\n    x\n\nb: 1\n", "web.a.u", "1", "a:\n  t: |+\n    x\n\n  u: 1\nb: 1\n"},
		"a folded text removed":         {"a: >\n  x\n  y\nb: 1\n", "web.a", "", "b: 1\n"},
		"a plain text of several lines": {"a: one\n  two\n  three # c\nb: 1\n", "web.a", "four", "a: four # c\nb: 1\n"},
		"dashes in a plain text":        {"a-b: - x\n", "web.a-b", "", ""},
		"a map by a number":             {"a: # c\n  b: 1\n  d: 2\ne: 1\n", "web.a", "5", "a: 5 # c\ne: 1\n"},
		"a number by a map":             {"a: 5 # c\ne: 1\n", "web.a", "{b: 1, d: [2]}", "a: # c\n  b: 1\n  d:\n    - 2\ne: 1\n"},
		"a map by a map":                {"a:\n    b: 1\ne: 1\n", "web.a", "{x: 1, z: 2}", "a:\n  x: 1\n  z: 2\ne: 1\n"},
		"a list by a map":               {"a:\n- 1\ne: 1\n", "web.a", "{x: 1}", "a:\n  x: 1\ne: 1\n"},
		"odd keys":                      {"\"a.b/c\":\n  'd': 1\n", `web["a.b/c"].d`, "2", "\"a.b/c\":\n  'd': 2\n"},
		"odd keys, new":                 {"a: 1\n", `web["x.y/z"]["on"]`, "2", "a: 1\nx.y/z:\n  \"on\": 2\n"},
		"a pointer":                     {"a.b/c: {d: 1}\n", "/web/a.b~1c/d", "2", "a.b/c: {d: 2}\n"},
		"wide characters":               {"ä: {ö: \"ß\", 键: [1]} # ü\n", "web.ä.键[0]", "2", "ä: {ö: \"ß\", 键: [2]} # ü\n"},
		"an alias itself":               {"a: &x {k: 1}\nb: *x # c\n", "web.b", "2", "a: &x {k: 1}\nb: 2 # c\n"},
		"an anchor nobody refers to":    {"a: &x\n  k: 1\n", "web.a.k", "2", "a: &x\n  k: 2\n"},
		"next to an anchor":             {"a: &x\n  k: 1\nb: *x\nc: 1\n", "web.c", "2", "a: &x\n  k: 1\nb: *x\nc: 2\n"},
		"over a merged key":             {"d: &d {k: 1}\na:\n  <<: *d\n  m: 1\n", "web.a.k", "2", "d: &d {k: 1}\na:\n  <<: *d\n  m: 1\n  k: 2\n"},
		"a tag":                         {"a: !!str 12 # c\nb: 1\n", "web.a", "13", "a: 13 # c\nb: 1\n"},
		"what is there already":         {"a:   1\n", "web.a", "1", "a:   1\n"},
		"nothing to remove":             {"a:   1\n", "web.b.c", "", "a:   1\n"},
		"the whole section":             {"a: [", "web", "{b: 1}", "b: 1\n"},
		"no unknown indentation":        {"a:\n b:\n         c: 1\n", "web.a.b.d", "2", "a:\n  b:\n    c: 1\n    d: 2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "dashes in a plain text" {
				c.text = "a-b: -x\n" // the other is no YAML
			}
			got, err := edited(t, c.text, c.path, c.value)
			if err != nil || got != c.want {
				t.Errorf("got %q, %v\nwant %q", got, err, c.want)
			}
		})
	}
}

// What cannot be done without touching something else is refused, with the reason.
func TestEditIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, path, value, says string }{
		"below an alias":         {"a: &x {k: 1}\nb: *x\n", "web.b.k", "2", "because of aliases"},
		"a key in hexadecimals":  {"p: {0x10: a}\n", "web.p.16", "b", "or an unusual format"},
		"in what others repeat":  {"a: &x {k: 1}\nb: *x\n", "web.a.k", "2", "because of aliases"},
		"an anchor others need":  {"a: &x 1\nb: *x\n", "web.a", "", "aliases"},
		"a merged key, removed":  {"d: &d {k: 1}\na:\n  <<: *d\n", "web.a.k", "", "because of aliases"},
		"below a merged key":     {"d: &d {k: {o: 1, p: 1}}\na:\n  <<: *d\n", "web.a.k.o", "2", "without changing something else"},
		"below a text":           {"a: x\n", "web.a.b", "1", "/web/a is a string, which has no elements or keys"},
		"no place in a list":     {"a: [1]\n", "web.a[5]", "1", `/web/a is a list of 1, "5" is not an index of it`},
		"two documents":          {"a: 1\n---\nb: 1\n", "web.a", "2", "second document"},
		"no YAML":                {"a: [\n", "web.a", "2", "ConfigMap key web is not valid"},
		"the section is a word":  {"false", "web.a", "2", "remove the key first"},
		"an unknown key":         {"", "some_module.a", "1", "keys are"},
		"a flag that is no flag": {"", "webEnabled", "maybe", "must be true or false"},
		"below a flag":           {"", "webEnabled.a", "true", "has no keys below it"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := edited(t, c.text, c.path, c.value)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, %v; want an error with %q", got, err, c.says)
			}
		})
	}
}

func TestEditOfFlags(t *testing.T) {
	data := map[string]string{"webEnabled": " true \n"}
	e, err := Edit{Path: []string{"webEnabled"}, Value: false}.Apply(data)
	if err != nil || e.Key != "webEnabled" || *e.Text != "false" || !e.Had || e.Before != true {
		t.Errorf("%+v, %v", e, err)
	}
	e, err = Edit{Path: []string{"webEnabled"}, Remove: true}.Apply(data)
	if err != nil || e.Text != nil || !e.Had {
		t.Errorf("%+v, %v", e, err)
	}
	e, err = Edit{Path: []string{"webMaintenance"}, Value: NoResourceReconciliation}.Apply(data)
	if err != nil || *e.Text != NoResourceReconciliation || e.Had {
		t.Errorf("%+v, %v", e, err)
	}
}

// Whatever the text is: an edit either is refused, or changes exactly what it should.
func FuzzEdit(f *testing.F) {
	f.Add("a: {b: 1} # c\n", "/a/b", "2")
	f.Add("a:\r\n- x: |+\r\n    y\r\n\r\n- *a\r\n", "/a/0/x", "")
	f.Fuzz(func(t *testing.T, text, path, value string) {
		at, err := splitPointer(path)
		tree, errValue := ParseYAML([]byte(value))
		before, errText := ParseYAML([]byte(text))
		if err != nil || errValue != nil || errText != nil || len(at) == 0 {
			return
		}
		edit := Edit{Path: append([]string{"web"}, at...), Value: tree, Remove: value == ""}
		e, err := edit.Apply(map[string]string{"web": text})
		if err != nil || e.Unchanged(edit) {
			return
		}
		after := any(nil)
		if e.Text != nil {
			after, err = ParseYAML([]byte(*e.Text))
			must(t, err)
		}
		want, err := edit.expected(before, at)
		if err != nil || !reflect.DeepEqual(after, want) && !same(after, want) {
			t.Errorf("%q became %q", text, *e.Text)
		}
	})
}
