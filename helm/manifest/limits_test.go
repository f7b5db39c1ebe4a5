package manifest

import (
	"strings"
	"testing"
)

// Texts that stand for much more than they are get refused before they are parsed; what only looks like it is not.
// D39.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct{ text, err string }{
		"an ordinary one":         {"kind: A\nmetadata: {name: a}\n", ""},
		"an alias":                {"kind: A\na: &a {x: 1}\nb: *a\nc: {<<: *a}\n", ""},
		"no aliases":              {"kind: A\nrun: echo && ls *.yaml & wait\nschedule: '*/5 * * * *'\n", ""},
		"an alias after a colon":  {"kind: A\na: {\"x\":&a " + strings.Repeat("x", 1_000_000) + ",\"l\":[" + strings.Repeat("*a,", 17) + "]}", "larger than 16 MiB"},
		"in the second document":  {"kind: A\n---\nbig: &a " + strings.Repeat("x", 1_000_000) + "\nl: [" + strings.Repeat("*a,", 17) + "]\n", "larger than 16 MiB"},
		"aliases of aliases":      {"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [" + strings.Repeat("*a,", 1000) + "]\nl: [" + strings.Repeat("*b,", 1000) + "]\n", "larger than 16 MiB"},
		"as keys that are merged": {"a: &a {k: " + strings.Repeat("x", 1_000_000) + "}\nl: [" + strings.Repeat("{<<: *a},", 17) + "]\n", "larger than 16 MiB"},
		"a name of all signs":     {"a: &A_1-z " + strings.Repeat("x", 1_000_000) + "\nl: [" + strings.Repeat("*A_1-z,", 17) + "]\n", "larger than 16 MiB"},
		"circles":                 {"a: &a [*a]\n", "an anchor contains itself"},
		"a long text":             {strings.Repeat(" ", MaxSize+1), "larger than 16 MiB"},
		"many lines":              {strings.Repeat("\n", MaxParts+1), "more than 500000 lines"},
		"many elements":           {"l: [" + strings.Repeat("0,", MaxParts+1) + "]", "more than 500000 lines"},
		"broken":                  {"a: &a [\nb: *a ]]\n", ""}, // Parse says so
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(c.text)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}
