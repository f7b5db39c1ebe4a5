package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"addon-operator/hooks"
	"addon-operator/values"
)

// Severities of findings.
const (
	// Error is what does not work, or not as it is written.
	Error = "error"
	// Warning is what works, and was probably not meant so.
	Warning = "warning"
)

// Finding is one mistake. Its JSON is what -o json prints.
type Finding struct {
	Severity string `json:"severity"`
	// File is relative to the modules directory, as people name it in a message; Path is the same
	// file from the working directory, as a workflow of GitHub needs it.
	File string `json:"file"`
	Path string `json:"path"`
	// Line and Column count from 1; they are 0 when it is about a directory, or the whole of a
	// file. Column counts characters.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Message describes the mistake, and Fix what to write instead.
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	// Excerpt is the line of the file.
	Excerpt string `json:"excerpt,omitempty"`
}

// maxFindings and maxMessage bound what is reported: a tree may hold nothing but mistakes, and a
// program may print anything.
const (
	maxFindings = 1000
	maxMessage  = 4000 // bytes
	maxExcerpt  = 160  // characters
)

// String is the finding as on a terminal, with its excerpt and a mark under the column.
func (f Finding) String() string {
	var out strings.Builder
	out.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&out, ":%d:%d", f.Line, f.Column)
	}
	fmt.Fprintf(&out, ": %s: %s\n", f.Severity, indented(f.Message))
	if f.Excerpt != "" {
		number := fmt.Sprintf("%5d", f.Line)
		text, caret := window(f.Excerpt, f.Column)
		fmt.Fprintf(&out, "%s | %s\n%s | %s^\n", number, text, strings.Repeat(" ", len(number)), strings.Repeat(" ", caret-1))
	}
	if f.Fix != "" {
		fmt.Fprintf(&out, "      = %s\n", indented(f.Fix))
	}
	return out.String()
}

// indented keeps further lines of a message apart from the findings around it.
func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n        ") }

// window cuts a long line to maxExcerpt characters around a column, and returns where the column is
// in the cut text, both from 1. A column behind the end of the line becomes the place right after
// it: it may come from a program that counts in another way. Tabs become one space, or the mark
// below would not stand under its character.
func window(line string, column int) (text string, at int) {
	line = strings.ReplaceAll(line, "\t", " ")
	runes := []rune(line)
	column = min(max(column, 1), len(runes)+1)
	if len(runes) <= maxExcerpt {
		return line, column
	}
	first := min(max(column-maxExcerpt/2, 0), len(runes)-maxExcerpt)
	text = string(runes[first : first+maxExcerpt])
	column -= first
	if first > 0 {
		text, column = "…"+text, column+1
	}
	if first+maxExcerpt < len(runes) {
		text += "…"
	}
	return text, column
}

// github is the finding as a workflow command, with which GitHub shows it at the line of a pull
// request. A message ends at the end of its line, so line ends are escaped; properties also escape
// what separates them.
func (f Finding) github() string {
	properties := func(text string) string {
		return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(text)
	}
	place := "file=" + properties(f.Path)
	if f.Line > 0 {
		place += fmt.Sprintf(",line=%d,col=%d", f.Line, f.Column)
	}
	text := f.Message
	if f.Fix != "" {
		text += "; " + f.Fix
	}
	return fmt.Sprintf("::%s %s,title=addon-operator lint::%s\n", f.Severity, place, strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text))
}

// sorted orders findings by file and place, errors before warnings of one place, and drops those
// that read the same: two checks may find one mistake, and an output that does not depend on the
// order of the checks can be compared.
func sorted(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			strings.Compare(a.Severity, b.Severity), strings.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(all, func(a, b Finding) bool { return a.String() == b.String() })
}

// count returns how many findings have a severity.
func count(all []Finding, severity string) (n int) {
	for _, f := range all {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// summary is the last line of the output; without findings it lists what was checked, so that an
// empty directory does not look like a correct one.
func summary(all []Finding, modules int) string {
	number := func(n int, word string) string {
		if n == 1 {
			return "1 " + word
		}
		return fmt.Sprintf("%d %ss", n, word)
	}
	if len(all) == 0 {
		return fmt.Sprintf("No findings in %s and the global hooks.", number(modules, "module"))
	}
	return number(count(all, Error), "error") + ", " + number(count(all, Warning), "warning")
}

// write writes findings in a format. Text and github end with the summary; JSON has the numbers as
// fields.
func write(w io.Writer, format string, all []Finding, summary string) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"findings": all, "errors": count(all, Error), "warnings": count(all, Warning)})
	case "github":
		for _, f := range all {
			if _, err := io.WriteString(w, f.github()); err != nil {
				return err
			}
		}
	default:
		for _, f := range all {
			if _, err := io.WriteString(w, f.String()+"\n"); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintln(w, summary)
	return err
}

// excerpt is a line of a file that commands no terminal (J10) and has one character for each of the
// line, so that the caret is below the right one.
func excerpt(line string) string {
	shown := strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, line)
	return values.Shorten(shown, 8*maxExcerpt)
}

// cut bounds a text that may be what a hook or a template printed, and must not command a terminal
// (J10).
func cut(text string, longest int) string {
	return values.Shorten(hooks.Printable(text), longest)
}
