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

// splicer changes one place of a YAML text and keeps all other bytes. The library reports only the
// line and column where a node begins; the splicer determines where it ends. It handles the forms
// that people write. Edit.Apply detects what it gets wrong.
//
// All positions are byte offsets into text. Lines and columns of nodes count from 1, columns in
// characters.
type splicer struct {
	text    string
	newline string
	// lines are the offsets at which the lines begin.
	lines    []int
	document *yaml.Node
}

// spot is a node together with its surroundings, which decide how a value is written in its place:
// a node has no link to its parent.
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
	// All line breaks of YAML 1.1 count, because the library counts lines by them. The rest of this
	// file breaks lines at \n only: in texts with other breaks a result may be wrong, which Apply
	// detects.
	for i, r := range text {
		if r == '\r' && strings.HasPrefix(text[i:], "\r\n") || !strings.ContainsRune("\n\r\u0085\u2028\u2029", r) {
			continue
		}
		s.lines = append(s.lines, i+utf8.RuneLen(r))
	}
	return s
}

// start returns the offset of a node, which is that of its tag or anchor if it has one. A line
// beyond the text counts as its last one.
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

// content returns the offset of a node after its tag and anchor, which may stand on a line before
// it.
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

// end returns the offset after the last character of a node. For an empty value of a map that is
// the end of the colon, so that a new value follows it directly.
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

// plainEnd returns the offset after the last character of a scalar without quotes. It matches the
// characters of the value in the text instead of searching for the end: the grammar of plain
// scalars (": ", " #", indentation) is long, and the library has parsed it already. White space is
// skipped because the value has blanks where the text has line breaks.
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

// blockEnd returns the end of a scalar after | or >: it continues while lines are blank or indented
// more than the parent. Blank lines at its end belong to it only if its header has a +.
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

// skip returns the offset after white space, commas and comments: that of a closing bracket, or of
// the next element.
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

// child returns the value at an index of the content of a list or a map; in a map, values have the
// odd indexes. Inside of brackets, indentation has no meaning, so the child keeps the indent of the
// block around them.
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

// find returns the index of a value in the content, or -1. Keys that a map gets by "<<" are not
// found: they belong to another place of the text.
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

// walk descends along a path and changes the value at its end. It refuses to go through aliases,
// and through anchors that an alias refers to: there one edit would change several values.
func (s *splicer) walk(p spot, path pointer, e Edit) (string, error) {
	node := p.node
	if node.Anchor != "" && refersTo(s.document, node) {
		return "", fmt.Errorf("line %d: the value is part of the anchor &%s, which aliases (*%s) repeat elsewhere; edit the ConfigMap manually", node.Line, node.Anchor, node.Anchor)
	}
	switch {
	case len(path) == 0:
		return s.replace(p, e.Value)
	case node.Kind == yaml.AliasNode:
		return "", fmt.Errorf("line %d: the value is below the alias *%s, whose anchor is elsewhere; edit the ConfigMap manually", node.Line, node.Value)
	case !isCollection(node): // null: expected has refused all others
		return s.replace(p, e.nested(path))
	}
	i := find(node, path[0])
	switch {
	case i < 0 && e.Remove:
		return "", fmt.Errorf("line %d: %s comes from an alias (<<); edit the ConfigMap manually", node.Line, path[0])
	case i < 0:
		return s.insert(p, path[0], e.nested(path[1:]))
	case e.Remove && len(path) == 1:
		return s.remove(p, i)
	}
	return s.walk(s.child(p, i), path[1:], e)
}

// refersTo reports whether an alias in the tree refers to the node.
func refersTo(tree, node *yaml.Node) bool {
	if tree.Kind == yaml.AliasNode {
		return tree.Alias == node
	}
	return slices.ContainsFunc(tree.Content, func(child *yaml.Node) bool { return refersTo(child, node) })
}

// block writes a value in block style. The first line is not indented: the caller puts it after the
// existing indentation, or after a key.
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

// inline writes a value on one line. JSON is valid YAML, so everything but plain words is written
// as JSON.
func inline(value any) (string, error) {
	if text, ok := value.(string); !ok || !isWord(text) || !isSafePlain(text) {
		text, err := JSON(value)
		return string(bytes.TrimSpace(text)), err
	}
	return value.(string), nil
}

// fitsLine reports whether a value is written on the line of its key even where a block is possible.
func fitsLine(value any) bool {
	text, isText := value.(string)
	return isEmpty(value) || !isContainer(value) && !(isText && strings.Contains(text, "\n"))
}

// replace writes a value in the place of a node. Comments on the line of the key, and on that of
// the old value, survive.
func (s *splicer) replace(p spot, value any) (string, error) {
	at, end := s.start(p.node), s.end(p)
	// A new value goes after the colon, wherever the library places an empty node.
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
			return "", errors.Join(err, errors.New("a multi-line string can only replace a string; edit the ConfigMap manually"))
		}
		return s.text[:at] + text + s.text[end:], err
	}
	indent := p.indent + 2 //nolint:mnd // as YAML does
	text, err := s.block(value, indent)
	colon, rest := s.colon(p), s.lineEnd(end)
	comment := strings.TrimRight(s.text[end:rest], " \t")
	// The old block begins on a line after the key, so the comment is between the two.
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

// insert adds a key to a map, or an element to a list, after the last one. The indentation of the
// last one is used, whatever the style of the file.
func (s *splicer) insert(p spot, key string, value any) (string, error) {
	node := p.node
	isMap := node.Kind == yaml.MappingNode
	// Empty collections are always written in brackets. A block of several lines is more readable.
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

// remove deletes the value at an index of the content together with its key or its dash. In block
// style the rest of its last line goes, too: a comment there is about the value.
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
	// A map or list that loses its only element becomes {} or []: with nothing in it the value of
	// its key would be null.
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
			return "", errors.New("its line contains something else; edit the ConfigMap manually")
		}
		next := s.start(node.Content[i+1])
		// Comments between the two belong to the next key: only the removed line goes.
		if strings.TrimSpace(s.text[end:next]) != "" { // comments
			return strings.TrimRight(s.text[:at], " ") + s.text[s.lineEnd(end):], nil
		}
		return s.text[:at] + s.text[next:], nil
	}
	// At the end of a text without a final line break, the break before the removed lines goes,
	// too.
	if end = s.nextLine(end); end == len(s.text) && !strings.HasSuffix(s.text, "\n") {
		begin = len(strings.TrimSuffix(strings.TrimSuffix(s.text[:begin], "\n"), "\r"))
	}
	return s.text[:begin] + s.text[end:], nil
}
