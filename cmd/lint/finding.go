package lint

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages/view"
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
	// Line and Column count from 1; they are 0 when they are unknown. Column counts characters.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Message describes the mistake, and after the last semicolon what to write instead.
	Message string `json:"message"`
}

// maxFindings and maxMessage bound what is reported: a tree may hold nothing but mistakes, and a
// program may print anything.
const (
	maxFindings = 1000
	maxMessage  = 4000 // bytes
)

// String is the finding as on a terminal. Further lines of a message are indented.
func (f Finding) String() string {
	at := f.File
	for _, n := range []int{f.Line, f.Column} {
		if n > 0 {
			at += ":" + strconv.Itoa(n)
		}
	}
	return fmt.Sprintf("%s: %s: %s\n", at, f.Severity, strings.ReplaceAll(f.Message, "\n", "\n        "))
}

// github is the finding as a workflow command, with which GitHub shows it at the line of a pull
// request. A message ends at the end of its line, so line ends are escaped; properties also escape
// what separates them.
func (f Finding) github() string {
	text := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	at := "file=" + strings.NewReplacer(":", "%3A", ",", "%2C").Replace(text.Replace(f.Path))
	if f.Line > 0 {
		at += fmt.Sprintf(",line=%d,col=%d", f.Line, max(f.Column, 1))
	}
	return fmt.Sprintf("::%s %s,title=addon-operator lint::%s\n", f.Severity, at, text.Replace(f.Message))
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
func (c *checks) summary(all []Finding, modules int) string {
	if len(all) > 0 {
		return view.Count(count(all, Error), "error") + ", " + view.Count(count(all, Warning), "warning")
	}
	text := "No findings"
	if c.Only == "" {
		text += " in " + view.Count(modules, "module") + " and the global hooks"
	}
	if c.played > 0 {
		text += "; " + view.Count(c.played, "test") + " passed"
	}
	return text + "."
}

// write writes findings in a format. Text and github end with the summary; JSON has the numbers as
// fields.
func write(w io.Writer, format string, all []Finding, summary string) error {
	if format == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"findings": all, "errors": count(all, Error), "warnings": count(all, Warning)})
	}
	var out strings.Builder
	for _, f := range all {
		if format == "github" {
			out.WriteString(f.github())
		} else {
			out.WriteString(f.String())
		}
	}
	_, err := fmt.Fprintf(w, "%s%s\n", &out, summary)
	return err
}

// findings collects what is wrong in a tree. Its callers have messages that were made for a log of
// the operator, with a path somewhere in the text; findings takes the place out of the text, and
// shortens the paths.
type findings struct {
	roots []string // absolute directories: those of modules, then that of global hooks
	files map[string]*document
	list  []Finding
}

// newFindings makes the directories absolute.
func newFindings(dirs *addons.Dirs) (f *findings, err error) {
	f = &findings{files: map[string]*document{}, list: []Finding{}}
	dirs.Modules = slices.Clone(dirs.Modules)
	for i := range dirs.Modules {
		if dirs.Modules[i], err = filepath.Abs(dirs.Modules[i]); err != nil {
			return nil, err
		}
	}
	dirs.Global, err = filepath.Abs(dirs.Global)
	f.roots = append(slices.Clone(dirs.Modules), dirs.Global)
	return f, err
}

// addMessage adds a message that names its file somewhere, as all messages about files do. Each line
// becomes a finding: a line that names no file is about that of the line before it, and before any
// file is named, about the modules directory.
func (f *findings) addMessage(severity, text string) {
	file := f.roots[0]
	for line := range strings.SplitSeq(text, "\n") {
		named, message := f.fileIn(line)
		if named != "" {
			file = named
		}
		if message = strings.TrimSpace(message); message != "" {
			at, message := f.locate(file, message)
			f.add(severity, file, at, message)
		}
	}
}

// fileIn finds the file that a message is about: the first mention of one of the directories, and
// from there the longest path that exists, since names may contain the characters that end a path.
// The message is returned without the path where that only means "this file: …".
func (f *findings) fileIn(text string) (file, message string) {
	begin, end := len(text), len(text)
	for _, root := range f.roots {
		i := strings.Index(text, root)
		if i < 0 || i > begin {
			continue
		}
		for j := i + len(root); j <= len(text); j++ {
			if j < len(text) && !strings.ContainsRune(" :;,\"'", rune(text[j])) {
				continue
			}
			if _, err := os.Lstat(text[i:j]); err == nil {
				begin, end, file = i, j, text[i:j]
			}
		}
	}
	before, after := text[:begin], text[end:]
	switch {
	case strings.HasPrefix(after, ": ") && !strings.ContainsAny(before, ":\""):
		return file, after[2:]
	case before == "" && strings.HasPrefix(after, " "):
		return file, after[1:]
	}
	return file, text
}

// locate finds the place that a message names: a line number, which is cut from it, or one of its
// first words that is a path in the YAML of the file, dotted or as a JSON pointer.
func (f *findings) locate(file, text string) (place, string) {
	if m := regexp.MustCompile(`^line (\d+)(?:, column (\d+))?: `).FindStringSubmatch(text); m != nil {
		return numbered(m[1], m[2]), text[len(m[0]):]
	}
	const first = 5
	words := strings.Fields(text)
	for _, word := range words[:min(first, len(words))] {
		if at := f.yamlOf(file).at(strings.TrimRight(word, ":,")); at != (place{}) {
			return at, text
		}
	}
	return place{}, text
}

// numbered is a place that a program has printed; what is no number is unknown.
func numbered(line, column string) (at place) {
	at.line, _ = strconv.Atoi(line)
	at.column, _ = strconv.Atoi(column)
	return at
}

// add collects a finding, unless it is there already: two checks may find one mistake. After
// maxFindings one last finding reports that there are more, and the rest is dropped.
func (f *findings) add(severity, file string, at place, text string) {
	for i, root := range f.roots { // in the first modules directory paths become relative to it
		with := ""
		if i > 0 {
			with = f.relative(root) + "/"
		}
		text = strings.ReplaceAll(text, root+"/", with)
	}
	text = values.Shorten(hooks.Printable(strings.TrimSpace(text)), maxMessage)
	one := Finding{severity, f.relative(file), file, at.line, at.column, text}
	if here, err := filepath.Abs("."); err == nil {
		if path, err := filepath.Rel(here, file); err == nil {
			one.Path = filepath.ToSlash(path)
		}
	}
	switch n := len(f.list); {
	case slices.Contains(f.list, one):
	case n < maxFindings:
		f.list = append(f.list, one)
	case n == maxFindings:
		f.list = append(f.list, Finding{Severity: Error, File: one.File, Path: one.Path, Message: "there are more findings; correct these first"})
	}
}

// relative is a file as findings name it: relative to the modules directory, also when it is
// outside of it, as ../global-hooks/… are.
func (f *findings) relative(file string) string {
	rel, err := filepath.Rel(f.roots[0], file)
	if err != nil {
		return file
	}
	return filepath.ToSlash(rel)
}

// about returns the findings in the directory of one module; "" returns all. The list is not usable
// afterwards.
func (f *findings) about(dir string) []Finding {
	only := f.relative(dir)
	return slices.DeleteFunc(f.list, func(one Finding) bool {
		return dir != "" && one.File != only && !strings.HasPrefix(one.File, only+"/")
	})
}

// place is a position in a file, from 1. The zero place is the whole file, or unknown; column 0 is
// somewhere in the line.
type place struct{ line, column int }

// document is a text in which findings are placed: a file, or what a script or template printed.
type document struct {
	lines []string
	yaml  []values.YAMLDocument // nil when it is no YAML
}

// maxSource bounds the files that are read to find a place in them, in bytes.
const maxSource = 4 << 20

// yamlOf reads a file once. What is missing, no regular file, or too large reads as empty, and has
// no places: that a file cannot be read is found by the check that needs it. A pipe is never opened,
// because its open waits for a writer.
func (f *findings) yamlOf(file string) *document {
	if f.files[file] == nil {
		var data []byte
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Size() <= maxSource {
			data, _ = os.ReadFile(file)
		}
		f.files[file] = parsed(data)
	}
	return f.files[file]
}

func parsed(data []byte) *document {
	d := &document{lines: strings.Split(string(data), "\n")}
	d.yaml, _ = values.ParseYAMLDocuments(data)
	return d
}

// at is the place of the key or list element at a path of the first document; the zero place when there is none.
// Aliases are followed, merge keys (<<) are not.
func (d *document) at(path string) place {
	steps, err := values.ParsePath(path)
	if err != nil {
		return place{}
	}
	return d.atSteps(steps)
}

// atSteps is at for a path that is split.
func (d *document) atSteps(steps []string) place {
	if len(d.yaml) > 0 {
		if line, column, found := d.yaml[0].Position(steps); found {
			return place{line, column}
		}
	}
	return place{}
}

// find is the first place of a text from a line on; the zero place when it is not there.
func (d *document) find(text string, from int) place {
	for i, line := range d.lines {
		if n := strings.Index(line, text); n >= 0 && i+1 >= from {
			return place{i + 1, 1 + utf8.RuneCountInString(line[:n])}
		}
	}
	return place{}
}

// origin translates a place in what a script or template has printed into the place that made it.
// Scripts print most of their configuration as they contain it, and templates all that is not
// computed: so it is a line that contains the printed one, or else its key.
func (d *document) origin(printed *document, at place) place {
	want := printed.line(at.line - 1)
	if found := d.like(want, printed, at.line); found != (place{}) {
		found.column += max(at.column-1-strings.Index(printed.lines[at.line-1], want), 0) // its indent may be another one here
		return found
	}
	key, _, _ := strings.Cut(strings.TrimLeft(want, "- "), ":")
	return d.like(key+":", printed, at.line)
}

// line is one without its indent; "" when there is none.
func (d *document) line(i int) string {
	if i < 0 || i >= len(d.lines) {
		return ""
	}
	return strings.TrimSpace(d.lines[i])
}

// like is the place of a text of line n of an output. Of several that one counts whose surroundings
// are the most alike; the zero place when it is not there, or too short to mean anything.
func (d *document) like(text string, printed *document, n int) (found place) {
	const near, shortest = 5, 3
	best := 0
	for i, line := range d.lines {
		column := strings.Index(line, text)
		if column < 0 || len(text) < shortest {
			continue
		}
		score := 1
		for by := -near; by <= near; by++ {
			if here := d.line(i + by); here != "" && here == printed.line(n-1+by) {
				score++
			}
		}
		if score > best {
			best, found = score, place{i + 1, 1 + utf8.RuneCountInString(line[:column])}
		}
	}
	return found
}
