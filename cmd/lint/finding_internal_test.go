package lint

import (
	"testing"
	"unicode/utf8"
)

// J10: an excerpt commands no terminal, and each character stays in its column.
func TestExcerptKeepsColumns(t *testing.T) {
	for line, want := range map[string]string{
		"a: \x1b[2Jb":  "a: \ufffd[2Jb",
		"\tä: \u0085x": "\tä: \ufffdx",
		"a\xffb":       "a\ufffdb",
		"\u202ea":      "\ufffda",
	} {
		if got := excerpt(line); got != want || utf8.RuneCountInString(got) != utf8.RuneCountInString(line) {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
}
