package manifest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Misprint looks for a mistake of printf in what a template has printed, such as %!d(float64=1). It returns the
// line of the first one, and its text up to the value, which may be a secret; 0 if there is none.
func Misprint(text string) (line int, mistake string) {
	if !strings.Contains(text, "%!") {
		return 0, ""
	}
	misprints := regexp.MustCompile(`%!(?:(\((?:EXTRA|NOVERB|BADWIDTH|BADPREC)\b)|` +
		`([a-zA-Z]\()(?:BADINDEX\)|PANIC=|<nil>\)|\*?[\w.\[\]{}]+(?: \{\})?=))`)
	found := misprints.FindStringSubmatchIndex(text)
	if found == nil {
		return 0, ""
	}
	end := max(found[3], found[5]) // of the group that matched
	return 1 + strings.Count(text[:found[0]], "\n"), text[found[0]:end] + "…)"
}

// Misprints names a template that has printed a mistake of printf, and the number of the others; empty if there is
// none. Such text is installed, as with Helm.
func Misprints(files map[string]string) (text string) {
	more := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch line, mistake := Misprint(files[name]); {
		case line == 0:
		case text == "":
			const why = "printf got a value that does not fit its verb"
			text = fmt.Sprintf("%s prints %q in line %d of its output: %s", name, mistake, line, why)
		default:
			more++
		}
	}
	if more > 0 {
		text = fmt.Sprintf("%s; and %d more", text, more)
	}
	return text
}
