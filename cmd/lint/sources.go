package lint

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxSource bounds the files that are read to show a place in them, in bytes. Nothing is shown of
// larger ones. Files with values have the same limit (D39).
const maxSource = 4 << 20

// source is a text in which findings are placed: a file, or what a script or template printed. All
// line and column numbers count from 1, columns in characters.
type source struct {
	data  []byte
	lines []string
	yaml  *yaml.Node // its first document; nil when it cannot be read, or was not yet
	tried bool
}

// place is a position in a source. The zero place is the whole file, or unknown; column 0 is
// somewhere in the line.
type place struct{ line, column int }

// sources keeps the files that were read in one check, by the path that was asked for: many
// findings are about few files. The zero value is empty.
type sources struct{ files map[string]*source }

// of reads a file. What is missing, no regular file, binary, or too large, reads as empty, and has
// no places: that a file cannot be read is found by the check that needs it.
func (s *sources) of(path string) *source {
	if known := s.files[path]; known != nil {
		return known
	}
	if s.files == nil {
		s.files = map[string]*source{}
	}
	s.files[path] = newSource(readSource(path))
	return s.files[path]
}

func newSource(data []byte) *source {
	return &source{data: data, lines: strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")}
}

// readSource reads a file of text, and returns nil for all else. It never blocks: an author's
// directory may hold a pipe, whose open waits for a writer. A NUL byte is the sign of a program.
func readSource(path string) []byte {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxSource {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSource))
	if err != nil || bytes.IndexByte(data, 0) >= 0 {
		return nil
	}
	return data
}

// line is the text of a line; "" when there is none.
func (s *source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return s.lines[n-1]
}

// start is the place of the first character of a line that is no space or tab.
func (s *source) start(n int) place {
	text := s.line(n)
	return place{n, 1 + utf8.RuneCountInString(text) - utf8.RuneCountInString(strings.TrimLeft(text, " \t"))}
}

// word is the place of a text in a line, or else the start of the line.
func (s *source) word(n int, text string) place {
	if i := strings.Index(s.line(n), text); text != "" && i >= 0 {
		return place{n, 1 + utf8.RuneCountInString(s.line(n)[:i])}
	}
	return s.start(n)
}

// find is the first place of a text in the file.
func (s *source) find(text string) (place, bool) {
	for i, line := range s.lines {
		if text != "" && strings.Contains(line, text) {
			return s.word(i+1, text), true
		}
	}
	return place{}, false
}

// binding is the place where a script has the kind of a binding: the first one at or below the name
// of the binding, within 30 lines, or else the first one in the file. One kind may be in several
// bindings of a hook, and the configuration that lint has is parsed, without places.
func (s *source) binding(name, kind string) place {
	first, _ := s.find(kind)
	named, ok := s.find("name: " + name)
	for n := named.line; ok && n <= min(len(s.lines), named.line+30); n++ {
		if strings.Contains(s.line(n), name) || n > named.line {
			if i := strings.LastIndex(s.line(n), kind); i >= 0 {
				return place{n, 1 + utf8.RuneCountInString(s.line(n)[:i])}
			}
		}
	}
	return first
}

// maxDepth bounds how deep a document is searched.
const maxDepth = 200

// document is the root of the first YAML document of the text; nil when it cannot be parsed, such
// as a script. It is parsed once, on the first question.
func (s *source) document() *yaml.Node {
	if s.tried {
		return s.yaml
	}
	s.tried = true
	var document yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(s.data)).Decode(&document); err == nil && len(document.Content) > 0 {
		s.yaml = document.Content[0]
	}
	return s.yaml
}

// at finds a path in the YAML: the place of the deepest step that exists, and how many steps do, so
// that a message about a missing key points to the map that lacks it. With key the place is that of
// the key of the last step, otherwise that of its value if it is a scalar. Depth 0 comes with the
// start of the document, or with the zero place when there is none.
func (s *source) at(path []string, key bool) (found place, depth int) {
	node := s.document()
	if node == nil {
		return place{}, 0
	}
	found = place{node.Line, node.Column}
	for _, step := range path[:min(len(path), maxDepth)] {
		name, next := child(node, step)
		if next == nil {
			break
		}
		depth++
		node = next
		found = place{name.Line, name.Column}
	}
	if !key && depth == len(path) && node.Kind == yaml.ScalarNode {
		found = place{node.Line, node.Column}
	}
	return found, depth
}

// child is the value of a key of a map, or an element of a list by its position, with the node that
// names it; nil for neither. Aliases are followed, merge keys (<<) are not.
func child(node *yaml.Node, step string) (name, value *yaml.Node) {
	if node.Kind == yaml.AliasNode && node.Alias != nil {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i], node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	}
	return nil, nil
}

// origin guesses from which line of a script or template a line of its output comes. Scripts print
// most of their configuration as they contain it, in a here document, and templates all that is not
// computed. So it looks for lines that are equal but for the indent; without one, for lines with
// the same key; and without one, for a line that contains the text, as in echo '{…}'. Of several
// candidates the one whose surroundings match the most lines wins, the first of equal ones.
func (s *source) origin(printed *source, n int) (line int, found bool) {
	want := printed.line(n)
	if strings.TrimSpace(want) == "" {
		return 0, false
	}
	best := 0
	for _, alike := range []func(a, b string) bool{same, sameKey} {
		for i := range s.lines {
			if !alike(s.lines[i], want) {
				continue
			}
			score := 1 + s.neighbours(printed, i+1, n, -1) + s.neighbours(printed, i+1, n, 1)
			if score > best {
				line, best = i+1, score
			}
		}
		if best > 0 {
			return line, true
		}
	}
	for i := range s.lines { // echo '{…}'
		if text := strings.TrimSpace(want); len(text) > shortText && strings.Contains(s.lines[i], text) {
			return i + 1, true
		}
	}
	return 0, false
}

// shortText is the length in bytes up to which a text may be in another line by chance.
const shortText = 3

// neighbours counts how many of the next 20 lines of an output, in the direction of step (1 or -1),
// also follow in the file, in the same order. Lines of the file that print nothing, such as
// conditions of templates, may be between, also up to 20.
func (s *source) neighbours(printed *source, here, there, step int) (n int) {
	const far = 20
	for range far {
		there += step
		if there < 1 || there > len(printed.lines) {
			return n
		}
		for i := 1; i <= far; i++ {
			if at := here + i*step; at >= 1 && at <= len(s.lines) && sameKey(s.line(at), printed.line(there)) {
				here, n = at, n+1
				break
			}
		}
	}
	return n
}

// same reports whether two lines are equal but for their indent.
func same(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

// sameKey reports whether two lines of YAML have the same key, whatever their values. Lines without
// a key must be equal, and empty lines are never.
func sameKey(a, b string) bool {
	if same(a, b) {
		return strings.TrimSpace(a) != ""
	}
	key := func(line string) string {
		line = strings.TrimLeft(strings.TrimSpace(line), "- ")
		name, _, found := strings.Cut(line, ":")
		if !found {
			return ""
		}
		return strings.Trim(name, `"'`)
	}
	return key(a) != "" && key(a) == key(b)
}

// numbered splits the place from a message such as "line 3: text" or "line 3, column 4: text".
func numbered(text string) (at place, rest string, found bool) {
	m := regexp.MustCompile(`^line (\d+)(?:, column (\d+))?: `).FindStringSubmatch(text)
	if m == nil {
		return place{}, text, false
	}
	at.line, _ = strconv.Atoi(m[1])
	at.column, _ = strconv.Atoi(m[2])
	return at, text[len(m[0]):], true
}
