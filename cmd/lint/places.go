package lint

import (
	"os"
	"strings"
	"unicode/utf8"

	"addon-operator/values"
)

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
