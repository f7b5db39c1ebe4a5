package hooks

import "strings"

// Printable gives a text of one or more lines in which nothing commands a terminal: characters that would, and bytes that are no
// text, are written as escapes. Names, annotations and events come from whoever may create objects.
func Printable(text string) string {
	if clean(strings.ReplaceAll(text, "\n", "")) {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = printable([]byte(line))
	}
	return strings.Join(lines, "\n")
}
