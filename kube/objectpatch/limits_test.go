package objectpatch

import (
	"strings"
	"testing"
)

// D39, K1: aliases that stand for more than there is memory are refused, in documents and in texts in them; honest
// ones are not.
func TestParseIsBounded(t *testing.T) {
	const begin = "operation: Create\nobject:\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: c}\n  data:\n"
	long := "    a: &a " + strings.Repeat("x", 200<<10) + "\n"
	levels := "    a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for level := byte('b'); level < 'z'; level++ {
		above := "*" + string(level-1)
		levels += "    _" + string(level) + ": &" + string(level) + " [" + strings.Repeat(above+", ", 9) + above + "]\n"
	}
	const limit = "document 1: the values have more than 1 MiB, or more than 50000 keys and values, with all aliases written out"
	for name, c := range map[string]struct{ text, want string }{
		"a long text":         {begin + long + "    l: [" + strings.Repeat("*a,", 99_000) + "]\n", limit},
		"aliases of aliases":  {begin + levels, limit},
		"an object as a text": {"operation: Create\nobject: |\n  a: &a " + strings.Repeat("x", 200<<10) + "\n  l: [" + strings.Repeat("*a,", 99_000) + "]\n", "object: the values have more than 1 MiB"},
		"an alias of itself":  {begin + "    a: &a [*a]\n", "is inside the value that it refers to"},
		"a few aliases":       {begin + long + "    l: [*a, *a, *a]\n", ""},
		"many operations":     {strings.Repeat(`{"operation":"Delete","kind":"a","name":"b"}`+"\n", 50_001), "there are more than 50000 operations; write fewer in one run"},
		"many documents":      {strings.Repeat("{operation: Delete, kind: a, name: b}\n---\n", 50_001), "there are more than 50000 operations; write fewer in one run"},
		"no YAML":             {begin + "    a: *nowhere [\n", "document 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			patches, err := Parse([]byte(c.text))
			switch {
			case c.want == "" && (err != nil || len(patches) != 1):
				t.Errorf("%d patches, %v", len(patches), err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
