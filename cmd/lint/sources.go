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

// maxSource bounds the files that are read to show a place in them. Nothing is shown of larger ones.
const maxSource = 4 << 20

// source is a file in which findings are.
type source struct {
	data  []byte
	lines []string
	yaml  *yaml.Node // its first document; nil when it cannot be read, or was not yet
	tried bool
}

// place is where something stands in a file; 0 is unknown.
type place struct{ line, column int }

// sources are files that were read.
type sources struct{ files map[string]*source }

// of reads a file. What is no regular file, or too large, reads as empty.
func (s *sources) of(path string) *source {
	if known := s.files[path]; known != nil {
		return known
	}
	if s.files == nil {
		s.files = map[string]*source{}
	}
	data := readSource(path)
	found := newSource(data)
	s.files[path] = found
	return found
}

func newSource(data []byte) *source {
	return &source{data: data, lines: strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")}
}

// readSource never waits, for a pipe say.
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

// start is the place of the first character of a line that is no space.
func (s *source) start(n int) place {
	text := s.line(n)
	return place{n, 1 + utf8.RuneCountInString(text) - utf8.RuneCountInString(strings.TrimLeft(text, " \t"))}
}

// word is the place of a text in a line, or the start of the line.
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

// binding is the place of the kind of a binding in a script: the first one at or behind its name, or else the first.
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

// maxDepth bounds how deep a document is looked into.
const maxDepth = 200

// document is the YAML of the file, or nil.
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

// at is the place of a value in YAML: of the deepest part of the path that is there, and how deep that is. With key it is the
// place of the key of the last step.
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

// child is the value of a key of a map, or an element of a list, with the node that names it.
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

// origin finds the line of a file from which a line of what it printed comes: a script prints most of its configuration as it
// stands there, a template all that is not computed.
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

// shortText is how long a text may be to stand in another line by chance.
const shortText = 3

// neighbours counts lines before or behind two lines that are alike, in order. Lines of the file that print nothing may be
// between.
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

func same(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

// sameKey reports lines of YAML with one key, whatever the value.
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

// numbered reads "line 3: text" and "line 3, column 4: text".
func numbered(text string) (at place, rest string, found bool) {
	m := regexp.MustCompile(`^line (\d+)(?:, column (\d+))?: `).FindStringSubmatch(text)
	if m == nil {
		return place{}, text, false
	}
	at.line, _ = strconv.Atoi(m[1])
	at.column, _ = strconv.Atoi(m[2])
	return at, text[len(m[0]):], true
}
