package manifest

import (
	"regexp"
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
