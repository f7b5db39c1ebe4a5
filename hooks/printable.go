package hooks

import "strings"

// Printable returns a text of one or more lines in which nothing controls a terminal (J10): control
// characters, and bytes that are no text, become escapes. Names, annotations and events come from
// anyone who may create objects.
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
