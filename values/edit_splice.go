package values

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// splicer changes one place of a YAML text and leaves all other bytes alone. The library knows where a node begins; where it
// ends is found out here.
type splicer struct {
	text     string
	newline  string
	lines    []int // where each line begins
	document *yaml.Node
}

// spot is a node with what stands around it.
type spot struct {
	node   *yaml.Node
	key    *yaml.Node // of a value of a map; nil for others
	indent int        // column of the list or map around it, from 0; -1 at the root
	flow   bool       // brackets stand around it
}

func newSplicer(text string) *splicer {
	s := &splicer{text: text, newline: "\n", lines: []int{0}}
	if strings.Contains(text, "\r\n") {
		s.newline = "\r\n"
	}
	for i, r := range text { // what YAML takes for the end of a line
		if r == '\r' && strings.HasPrefix(text[i:], "\r\n") || !strings.ContainsRune("\n\r\u0085\u2028\u2029", r) {
			continue
		}
		s.lines = append(s.lines, i+utf8.RuneLen(r))
	}
	return s
}

func (s *splicer) start(node *yaml.Node) int {
	at := s.lines[min(node.Line-1, len(s.lines)-1)]
	for range node.Column - 1 {
		_, size := utf8.DecodeRuneInString(s.text[at:])
		at += size
	}
	return at
}

// column is how far a position is from the beginning of its line, from 0.
func (s *splicer) column(at int) int { return utf8.RuneCountInString(s.text[s.lineStart(at):at]) }

func (s *splicer) lineStart(at int) int { return strings.LastIndexByte(s.text[:at], '\n') + 1 }

// lineEnd is where the line of a position ends, before its line break.
func (s *splicer) lineEnd(at int) int {
	end := strings.IndexByte(s.text[at:], '\n')
	if end < 0 {
		return len(s.text)
	}
	return at + len(strings.TrimSuffix(s.text[at:at+end], "\r"))
}

// nextLine is where the line after a position begins.
func (s *splicer) nextLine(at int) int {
	if end := strings.IndexByte(s.text[at:], '\n'); end >= 0 {
		return at + end + 1
	}
	return len(s.text)
}

// content is where a node begins without its tag and anchor.
func (s *splicer) content(node *yaml.Node) int {
	at := s.start(node)
	for at < len(s.text) && (s.text[at] == '&' || s.text[at] == '!') {
		rest := s.text[at:]
		word := strings.IndexFunc(rest, unicode.IsSpace)
		if word < 0 {
			return len(s.text)
		}
		at += word + len(rest[word:]) - len(strings.TrimLeft(rest[word:], " \t\r\n"))
	}
	return at
}

// end is where a node ends: behind its last character.
func (s *splicer) end(p spot) int {
	node, at := p.node, s.content(p.node)
	last := func() spot { return s.child(p, len(node.Content)-1) }
	switch {
	case node.Kind == yaml.AliasNode:
		return at + len("*") + len(node.Value)
	case isNothing(node):
		if p.key != nil {
			return s.colon(p)
		}
		return at
	case isCollection(node) && node.Style&yaml.FlowStyle != 0:
		at++
		if len(node.Content) > 0 {
			at = s.end(last())
		}
		return s.skip(at) + 1 // the bracket
	case isCollection(node):
		return s.end(last())
	case node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		return s.quotedEnd(at)
	case node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return s.blockEnd(at, p.indent)
	}
	return s.plainEnd(at, node.Value)
}

// quotedEnd is behind the quote that closes the one at a position.
func (s *splicer) quotedEnd(at int) int {
	quote := s.text[at]
	for at++; at < len(s.text); at++ {
		switch {
		case quote == '"' && s.text[at] == '\\', quote == '\'' && strings.HasPrefix(s.text[at:], "''"):
			at++
		case s.text[at] == quote:
			return at + 1
		}
	}
	return at + 1
}

// plainEnd is behind the last character of a text without quotes.
func (s *splicer) plainEnd(at int, value string) int {
	for _, r := range value { // line breaks of a plain text are blanks of its value
		if unicode.IsSpace(r) {
			continue
		}
		for at < len(s.text) {
			found, size := utf8.DecodeRuneInString(s.text[at:])
			at += size
			if found == r {
				break
			}
		}
	}
	return at
}

// blockEnd is where a text behind | or > ends: its lines are blank, or indented more than what is around it.
func (s *splicer) blockEnd(at, indent int) int {
	header, _, _ := strings.Cut(s.text[at:s.lineEnd(at)], "#")
	end := s.lineEnd(at)
	for next := s.nextLine(at); next < len(s.text); next = s.nextLine(next) {
		line := s.text[next:s.lineEnd(next)]
		blank := strings.TrimLeft(line, " ") == ""
		if !blank && len(line)-len(strings.TrimLeft(line, " ")) <= indent {
			break
		}
		if !blank || strings.Contains(header, "+") {
			end = s.lineEnd(next)
		}
	}
	return end
}

// skip passes blanks, commas, line breaks and comments.
func (s *splicer) skip(at int) int {
	for at < len(s.text) {
		switch c := s.text[at]; {
		case c == '#':
			at = s.lineEnd(at)
		case strings.IndexByte(" \t\r\n,", c) >= 0:
			at++
		default:
			return at
		}
	}
	return at
}

// colon is behind the colon of a key; behind the key when it has none on its line.
func (s *splicer) colon(p spot) int {
	at := s.end(spot{node: p.key, indent: p.indent, flow: p.flow})
	rest := s.text[at:s.lineEnd(at)]
	if trimmed := strings.TrimLeft(rest, " \t"); strings.HasPrefix(trimmed, ":") {
		return at + len(rest) - len(trimmed) + 1
	}
	return at
}

func isCollection(node *yaml.Node) bool {
	return node.Kind == yaml.MappingNode || node.Kind == yaml.SequenceNode
}

// child is the value at an index of the content of a list or a map.
func (s *splicer) child(p spot, i int) spot {
	child := spot{node: p.node.Content[i], indent: s.column(s.content(p.node)), flow: p.flow || p.node.Style&yaml.FlowStyle != 0}
	if child.flow {
		child.indent = p.indent
	}
	if p.node.Kind == yaml.MappingNode {
		child.key = p.node.Content[i-1]
	}
	return child
}

// find is the index of a value in the content; -1 when it is not there.
func find(node *yaml.Node, element string) int {
	if node.Kind == yaml.SequenceNode {
		if index, ok := listIndex(element); ok && index < len(node.Content) {
			return index
		}
		return -1
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if keyIs(node.Content[i], element) {
			return i + 1
		}
	}
	return -1
}

// walk goes down a path and changes what lies at its end.
func (s *splicer) walk(p spot, path pointer, e Edit) (string, error) {
	node := p.node
	if node.Anchor != "" && refersTo(s.document, node) {
		return "", fmt.Errorf("line %d: it lies in &%s, which aliases (*%s) repeat elsewhere; edit the ConfigMap by hand", node.Line, node.Anchor, node.Anchor)
	}
	switch {
	case len(path) == 0:
		return s.replace(p, e.Value)
	case node.Kind == yaml.AliasNode:
		return "", fmt.Errorf("line %d: it lies below the alias *%s, which repeats what stands elsewhere; edit the ConfigMap by hand", node.Line, node.Value)
	case !isCollection(node): // null: expected has refused all others
		return s.replace(p, e.nested(path))
	}
	i := find(node, path[0])
	switch {
	case i < 0 && e.Remove:
		return "", fmt.Errorf("line %d: %s comes from an alias (<<); edit the ConfigMap by hand", node.Line, path[0])
	case i < 0:
		return s.insert(p, path[0], e.nested(path[1:]))
	case e.Remove && len(path) == 1:
		return s.remove(p, i)
	}
	return s.walk(s.child(p, i), path[1:], e)
}

// refersTo reports whether an alias means the node.
func refersTo(tree, node *yaml.Node) bool {
	if tree.Kind == yaml.AliasNode {
		return tree.Alias == node
	}
	return slices.ContainsFunc(tree.Content, func(child *yaml.Node) bool { return refersTo(child, node) })
}

// block writes a value as lines; all but the first are indented.
func (s *splicer) block(value any, indent int) (string, error) {
	text, err := YAML(value)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i := range lines {
		if i > 0 && lines[i] != "" {
			lines[i] = strings.Repeat(" ", indent) + lines[i]
		}
	}
	return strings.Join(lines, s.newline), err
}

// inline writes a value within a line: JSON, which is YAML, unless it is a plain word or number.
func inline(value any) (string, error) {
	if text, ok := value.(string); !ok || !isWord(text) || !isSafePlain(text) {
		text, err := JSON(value)
		return string(bytes.TrimSpace(text)), err
	}
	return value.(string), nil
}

// fitsLine reports whether a value is written within a line also where lines could be used.
func fitsLine(value any) bool {
	text, isText := value.(string)
	return isEmpty(value) || !isContainer(value) && !(isText && strings.Contains(text, "\n"))
}

// replace writes another value in the place of a node.
func (s *splicer) replace(p spot, value any) (string, error) {
	at, end := s.start(p.node), s.end(p)
	if isNothing(p.node) {
		at = end
	}
	flowing := p.flow || isCollection(p.node) && p.node.Style&yaml.FlowStyle != 0 && len(p.node.Content) > 0
	if flowing || fitsLine(value) {
		return s.replaceInline(p, at, end, value, flowing)
	}
	if p.key == nil {
		text, err := s.block(value, s.column(at))
		return s.text[:at] + text + s.text[end:], err
	}
	if _, isText := value.(string); isText { // its first line is that of the key
		text, err := s.block(value, p.indent)
		if at == end || isCollection(p.node) {
			return "", errors.Join(err, errors.New("a text of several lines can only replace a text; edit the ConfigMap by hand"))
		}
		return s.text[:at] + text + s.text[end:], err
	}
	indent := p.indent + 2 //nolint:mnd // as YAML does
	text, err := s.block(value, indent)
	colon, rest := s.colon(p), s.lineEnd(end)
	comment := strings.TrimRight(s.text[end:rest], " \t")
	if isCollection(p.node) && p.node.Style&yaml.FlowStyle == 0 {
		comment, rest = strings.TrimRight(s.text[colon:at], " \t\r\n"), end
	}
	return s.text[:colon] + comment + s.newline + strings.Repeat(" ", indent) + text + s.text[rest:], err
}

// replaceInline writes a value within a line in the place of the text from at to end.
func (s *splicer) replaceInline(p spot, at, end int, value any, flowing bool) (string, error) {
	text, err := inline(value)
	if !flowing && !isContainer(value) {
		text, err = s.block(value, 0) // with the quotes that people use
	}
	switch {
	case p.key != nil && isNothing(p.node):
		text = " " + text
	case p.key != nil && isCollection(p.node) && p.node.Style&yaml.FlowStyle == 0: // it begins on a line of its own
		colon := s.colon(p)
		return s.text[:colon] + " " + text + strings.TrimRight(s.text[colon:at], " \t\r\n") + s.text[end:], err
	}
	return s.text[:at] + text + s.text[end:], err
}

// insert adds a key to a map, or an element to a list, behind the last.
func (s *splicer) insert(p spot, key string, value any) (string, error) {
	node := p.node
	isMap := node.Kind == yaml.MappingNode
	if len(node.Content) == 0 && !p.flow {
		if isMap {
			return s.replace(p, map[string]any{key: value})
		}
		return s.replace(p, []any{value})
	}
	if p.flow || node.Style&yaml.FlowStyle != 0 {
		text, err := inline(value)
		if isMap {
			name, errName := inline(key)
			text, err = name+": "+text, errors.Join(err, errName)
		}
		at := s.content(node) + 1
		if len(node.Content) > 0 {
			at, text = s.end(s.child(p, len(node.Content)-1)), ", "+text
		}
		return s.text[:at] + text + s.text[at:], err
	}
	last := s.child(p, len(node.Content)-1)
	at, indent := s.lineEnd(s.end(last)), last.indent
	var added any = []any{value}
	if isMap {
		added = map[string]any{key: value}
	}
	text, err := s.block(added, indent)
	return s.text[:at] + s.newline + strings.Repeat(" ", indent) + text + s.text[at:], err
}

// remove takes the value at an index of the content away, with its key or its dash.
func (s *splicer) remove(p spot, i int) (string, error) {
	node, each := p.node, 1
	if node.Kind == yaml.MappingNode {
		each = 2
	}
	first := i + 1 - each // the key, or the element
	at, end := s.start(node.Content[first]), s.end(s.child(p, i))
	only, isLast := len(node.Content) == each, i+1 == len(node.Content)
	if p.flow || node.Style&yaml.FlowStyle != 0 {
		switch {
		case only:
			end = s.skip(end) // a comma
		case !isLast:
			end = s.start(node.Content[i+1])
		default:
			at = s.end(s.child(p, i-each))
		}
		return s.text[:at] + s.text[end:], nil
	}
	if only && p.indent >= 0 {
		var empty any = map[string]any{}
		if each == 1 {
			empty = []any{}
		}
		return s.replace(p, empty)
	}
	begin := s.lineStart(at)
	before := s.text[begin:at]
	if each == 1 { // the dash goes with the element
		before = strings.TrimSuffix(strings.TrimRight(before, " \t"), "-")
	}
	if strings.TrimSpace(before) != "" { // the first key of a map in a list: the dash stays
		if isLast {
			return "", errors.New("something else stands on its line; edit the ConfigMap by hand")
		}
		next := s.start(node.Content[i+1])
		if strings.TrimSpace(s.text[end:next]) != "" { // comments
			return strings.TrimRight(s.text[:at], " ") + s.text[s.lineEnd(end):], nil
		}
		return s.text[:at] + s.text[next:], nil
	}
	if end = s.nextLine(end); end == len(s.text) && !strings.HasSuffix(s.text, "\n") {
		begin = len(strings.TrimSuffix(strings.TrimSuffix(s.text[:begin], "\n"), "\r"))
	}
	return s.text[:begin] + s.text[end:], nil
}
