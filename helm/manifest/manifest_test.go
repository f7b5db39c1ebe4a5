package manifest

import (
	"strings"
	"testing"
)

// Lists are flattened, empty documents left out, labels without a value are empty; what
// is no object is refused without being quoted, because it may be a Secret.
func TestParse(t *testing.T) {
	for name, c := range map[string]struct{ text, want, err string }{
		"documents":            {"kind: A\nmetadata: {name: a}\n---\n# nothing\n---\nkind: B\nmetadata: {name: b, namespace: ns}\n", "A a, B ns/b", ""},
		"a list":               {"kind: List\napiVersion: v1\nitems: [{kind: A, metadata: {name: a}}, {kind: B, metadata: {name: b}}]", "A a, B b", ""},
		"a list of one kind":   {"kind: AList\napiVersion: v1\nitems: [{metadata: {name: a}}, {kind: B, metadata: {name: b}}]", "A a, B b", ""},
		"a label without text": {"kind: A\nmetadata: {name: a, labels: {x: , k: v}}", "A a x= k=v", ""},
		"null labels":          {"kind: A\nmetadata: {name: a, labels: , annotations: null}", "A a", ""},
		"a key twice":          {"kind: A\nmetadata: {name: x, name: a}", "A a", ""}, // M1: the last one counts, as with kubectl
		"a merged key":         {"kind: A\nx: &x {name: x}\nmetadata: {<<: *x, name: a}", "A a", ""},
		"JSON with escapes":    {"{\n\t\"kind\": \"A\", \"metadata\": {\"name\": \"\\/\\ud83d\\ude00\"}}", "A /😀", ""},
		"no kind":              {"metadata: {name: hunter2}", "", "a document has no kind"},
		"an item without kind": {"kind: List\napiVersion: v1\nitems: [{metadata: {name: a}}]", "", "a document has no kind"},
		"metadata is a text":   {"kind: A\nmetadata: hunter2", "", "A: metadata is not a map"},
		"a string":             {"hunter2", "", "not an object"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Parse(c.text)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			var got []string
			for _, o := range objects {
				text := Of(o).String()
				for _, key := range []string{"x", "k"} {
					if value, ok := o.GetLabels()[key]; ok {
						text += " " + key + "=" + value
					}
				}
				got = append(got, text)
			}
			if text := strings.Join(got, ", "); err != nil || text != c.want {
				t.Errorf("got %q, %v, want %q", text, err, c.want)
			}
		})
	}
}
