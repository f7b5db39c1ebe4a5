package values

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxAliasNodes bounds how many nodes a document may gain through aliases. A few lines of aliases
// of aliases can describe more nodes than there is memory; ordinary documents repeat a block some
// dozen times.
const maxAliasNodes = 100_000

// ParseYAML reads exactly one YAML document into a tree; an empty document is nil.
//
// It reads scalars as sigs.k8s.io/yaml does, so values mean what they mean in any other file of a
// cluster: unquoted yes, no, on, off, y and n are booleans, timestamps are texts, keys that are
// integers are texts of decimal digits. It is stricter where a silent choice would hurt: it refuses
// duplicate keys, other keys that are no texts, unknown tags, infinities, and what is larger than 4
// MiB with its aliases written out, or nested more than 100 levels deep (D39). It reports the first
// 100 such errors, each with its line. A syntax error is reported alone. JSON is YAML, also with escapes that the
// library does not read, such as surrogate pairs.
func ParseYAML(data []byte) (any, error) {
	documents, err := readYAML(data)
	if err != nil && json.Valid(data) {
		return parseStrictJSON(data)
	}
	if err != nil || len(documents) == 0 {
		return nil, err
	}
	if len(documents) > 1 && !isEmptyDocument(documents[1]) {
		return nil, fmt.Errorf("line %d: a second document begins; write only one", documents[1].Line)
	}
	return treeOf(documents[0], false)
}

// ParsePublished is ParseYAML for the values.yaml of a chart in chart/, which Helm reads: of duplicate keys the last
// one counts.
func ParsePublished(data []byte) (any, error) {
	documents, err := readYAML(data)
	if err != nil || len(documents) == 0 {
		return nil, err
	}
	return treeOf(documents[0], true)
}

// YAMLDocument is one document of a stream. It keeps the nodes, so that a message about a value can
// name its position.
type YAMLDocument struct {
	Tree any
	node *yaml.Node
}

// ParseYAMLDocuments reads all documents of a stream that are not empty, by the rules of ParseYAML.
// The limits apply to each document. If there are errors, the trees of the documents that have them
// are nil.
func ParseYAMLDocuments(data []byte) (documents []YAMLDocument, err error) {
	nodes, err := readYAML(data)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, node := range nodes {
		if isEmptyDocument(node) {
			continue
		}
		tree, err := treeOf(node, false)
		problems = append(problems, err)
		documents = append(documents, YAMLDocument{Tree: tree, node: node})
	}
	return documents, errors.Join(problems...)
}

// Position returns the line and the column, from 1, of the key or element at a path of keys and
// indexes, or of the innermost one on the way that the document has.
func (d YAMLDocument) Position(path []string) (line, column int) {
	node := d.node
	line, column = node.Line, node.Column
	if len(node.Content) > 0 {
		node = node.Content[0]
		line, column = node.Line, node.Column
	}
	for _, step := range path {
		for node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		at, child := nodeBelow(node, step)
		if child == nil {
			break
		}
		line, column, node = at.Line, at.Column, child
	}
	return line, column
}

// nodeBelow returns the value of a key, or the element of an index, and the node where it begins:
// the key.
func nodeBelow(node *yaml.Node, step string) (at, child *yaml.Node) {
	if node.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
		return nil, nil
	}
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == step {
			return node.Content[i], node.Content[i+1]
		}
	}
	return nil, nil
}

// readYAML reads the nodes of all documents. The library does not expand aliases in nodes, so this
// is safe before the limits are checked.
func readYAML(data []byte) (documents []*yaml.Node, err error) {
	if err := checkText(data); err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, syntaxError(err, data)
		}
		documents = append(documents, &document)
	}
}

// treeOf converts a document into a tree; published as ParsePublished. The error joins all problems.
func treeOf(document *yaml.Node, published bool) (any, error) {
	reader := yamlReader{document: document, published: published, anchors: map[*yaml.Node]*anchor{}}
	tree := reader.read(document)
	if len(reader.problems) > 0 {
		return nil, errors.Join(reader.problems...)
	}
	return tree, nil
}

// syntaxError removes the name of the library and returns the line of the text where the mistake
// is, or begins. The parser of the library counts lines from 0, its scanner from 1, and neither
// reports line 0; only the texts show which of the two an error is from.
func syntaxError(err error, data []byte) error {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	} else if strings.HasPrefix(text, "unknown anchor") {
		return errors.New(text) // it could be anywhere
	}
	parser := regexp.MustCompile(`^(did not find expected (<|node content|'-' indicator|key$|',' or)|found (undefined tag handle|duplicate %|incompatible YAML))`)
	if line == 0 || parser.MatchString(text) {
		line++
	}
	last := bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n")) + 1 // the end of the text is no line of its own
	return fmt.Errorf("line %d: %s", min(line, last), text)
}

// isEmptyDocument accepts what a separator at the end of a file makes: a document without content.
func isEmptyDocument(document *yaml.Node) bool {
	return len(document.Content) == 0 || document.Content[0].ShortTag() == "!!null"
}

// anchor is a subtree that aliases refer to, with its measures, so that an alias costs no second
// walk. While it is being read it is open: an alias to it would contain itself.
type anchor struct {
	tree  any
	nodes int
	size  int
	depth int
	open  bool
}

// yamlReader converts nodes into trees and collects what is wrong with them. It counts while it
// reads, and stops at a limit before anything is expanded beyond it.
type yamlReader struct {
	document *yaml.Node
	// published: of duplicate keys the last one counts (ParsePublished).
	published bool

	anchors  map[*yaml.Node]*anchor
	nodes    int // read so far, aliased ones included
	size     int // of them, as measure counts
	aliased  int // nodes that came from aliases
	depth    int // of lists and maps around the node that is read
	deepest  int // depth inside of the anchor that is read
	problems []error
	stopped  bool // the rest is not read: it is too much
}

// refuse records a problem. Reading continues, so that all problems are found, up to maxProblems.
func (r *yamlReader) refuse(node *yaml.Node, format string, args ...any) {
	if r.stopped {
		return
	}
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = brief(text)
		}
	}
	r.problems = append(r.problems, fmt.Errorf("line %d: "+format, append([]any{node.Line}, args...)...))
	if len(r.problems) == maxProblems {
		r.problems, r.stopped = append(r.problems, errTooMany), true
	}
}

// stop ends the reading at the node that exceeds a limit: whatever follows would only be more.
func (r *yamlReader) stop(node *yaml.Node, limit error) {
	if place := placeOf(r.document, node); place != "" {
		limit = fmt.Errorf("%s: %w", place, limit)
	}
	r.refuse(node, "%w", limit)
	r.stopped = true
}

// read returns the tree of a node and records the subtrees of anchors. deepest is measured for each
// anchor by itself: its depth counts from the place of an alias.
func (r *yamlReader) read(node *yaml.Node) any {
	if node.Anchor == "" || node.Kind == yaml.AliasNode {
		return r.readNode(node)
	}
	a := &anchor{open: true}
	r.anchors[node] = a
	nodes, size, deepest := r.nodes, r.size, r.deepest
	r.deepest = r.depth
	a.tree = r.readNode(node)
	a.nodes, a.size, a.depth, a.open = r.nodes-nodes, r.size-size, r.deepest-r.depth, false
	r.deepest = max(deepest, r.deepest)
	return a.tree
}

func (r *yamlReader) readNode(node *yaml.Node) any {
	if r.stopped {
		return nil
	}
	r.nodes++
	switch node.Kind {
	case yaml.DocumentNode:
		return r.read(node.Content[0])
	case yaml.AliasNode:
		return r.readAlias(node)
	}
	if r.size += overhead + len(node.Value); r.size > maxSize {
		r.stop(node, errTooLarge)
		return nil
	}
	switch node.Kind {
	case yaml.SequenceNode:
		return r.readList(node)
	case yaml.MappingNode:
		return r.readMap(node)
	default:
		return r.readScalar(node)
	}
}

// readAlias shares the subtree of the anchor. Only its size is counted again, because
// the output contains the subtree again.
func (r *yamlReader) readAlias(node *yaml.Node) any {
	a := r.anchors[node.Alias]
	switch {
	case a == nil || a.open:
		r.refuse(node, "alias *%s is inside the value that it refers to", node.Value)
		return nil
	case r.depth+a.depth > maxDepth:
		r.stop(node, errTooDeep)
		return nil
	}
	r.deepest = max(r.deepest, r.depth+a.depth)
	r.nodes += a.nodes
	r.aliased += a.nodes
	r.size += a.size
	switch {
	case r.size > maxSize:
		r.stop(node, errTooLarge)
		return nil
	case r.aliased > maxAliasNodes:
		r.stop(node, fmt.Errorf("aliases repeat more than %d values; write the values out or use fewer aliases", maxAliasNodes))
		return nil
	}
	return a.tree
}

// enter begins a list or a map, and reports whether it may be read.
func (r *yamlReader) enter(node *yaml.Node) bool {
	if r.depth == maxDepth {
		r.stop(node, errTooDeep)
		return false
	}
	r.depth++
	r.deepest = max(r.deepest, r.depth)
	return true
}

func (r *yamlReader) leave() { r.depth-- }

func (r *yamlReader) readList(node *yaml.Node) any {
	r.checkTag(node, "!!seq")
	if !r.enter(node) {
		return nil
	}
	defer r.leave()
	list := make([]any, 0, len(node.Content))
	for _, child := range node.Content {
		list = append(list, r.read(child))
	}
	return list
}

// readMap reads the own keys of a map before its merge keys ("<<"), wherever these stand: own keys
// win.
func (r *yamlReader) readMap(node *yaml.Node) any {
	r.checkTag(node, "!!map")
	if !r.enter(node) {
		return nil
	}
	defer r.leave()
	m := make(map[string]any, len(node.Content)/2)
	lines := make(map[string]int, len(node.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		keyNode, valueNode := node.Content[i], node.Content[i+1]
		if isMergeKey(keyNode) {
			merges = append(merges, valueNode)
			continue
		}
		key, ok := r.readKey(keyNode)
		value := r.read(valueNode)
		if !ok {
			continue
		}
		if r.stopped {
			break
		}
		if first, twice := lines[key]; twice && !r.published {
			r.refuse(keyNode, "key %q is already set in line %d", key, first)
			continue
		}
		m[key], lines[key] = value, keyNode.Line
	}
	for _, source := range merges {
		r.mergeInto(m, source)
	}
	return m
}

// readKey accepts texts, and integers, as in "8080: ns/svc:80" (D4). Fractions and booleans as keys
// would have to be converted into texts by guessing: on, for example, would become "true".
func (r *yamlReader) readKey(node *yaml.Node) (string, bool) {
	tree := r.read(node)
	if key, ok := tree.(string); ok {
		return key, true
	}
	if key, ok := integerKey(node, tree); ok {
		return key, true
	}
	if node.Kind == yaml.ScalarNode {
		r.refuse(node, "key %s is %s, not a string; write \"%s\" in quotes", node.Value, describe(tree), node.Value)
	} else {
		r.refuse(node, "a key is %s, not a string", describe(tree))
	}
	return "", false
}

// integerKey returns the text of a key that was read as an integer, and whether it may be one. 1.0
// and 1e3 are integers as values only. In hexadecimal numbers e is a digit.
func integerKey(node *yaml.Node, tree any) (key string, ok bool) {
	switch tree.(type) {
	case int64, json.Number:
		hexadecimal := strings.HasPrefix(strings.TrimLeft(strings.ToLower(node.Value), "+-"), "0x")
		return fmt.Sprint(tree), node.Kind == yaml.ScalarNode && (hexadecimal || !strings.ContainsAny(node.Value, ".eE"))
	}
	return "", false
}

// keyIs reports whether a node is a key with this text, as readKey reads it.
func keyIs(node *yaml.Node, text string) bool {
	if node.Kind != yaml.ScalarNode || isMergeKey(node) {
		return false
	}
	if isPlain(node) {
		if tree, err := resolvePlain(node.Value); err == nil {
			if key, ok := integerKey(node, tree); ok {
				return key == text
			}
		}
	}
	return node.Value == text
}

// isMergeKey recognizes the unquoted <<; in quotes it is a key like any other.
func isMergeKey(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Value == "<<" && (isPlain(node) || node.ShortTag() == "!!merge")
}

// mergeInto adds the keys of "<<: *defaults" that the map does not set itself. In a list of maps
// the first one wins. It writes into m, which was just read, never into the defaults, which are
// shared.
func (r *yamlReader) mergeInto(m map[string]any, source *yaml.Node) {
	add := func(node *yaml.Node) {
		defaults, ok := r.read(node).(map[string]any)
		if !ok {
			r.refuse(node, "<< needs a map or a list of maps")
		}
		for key, value := range defaults {
			if _, set := m[key]; !set {
				m[key] = value
			}
		}
	}
	if source.Kind != yaml.SequenceNode {
		add(source)
		return
	}
	for _, node := range source.Content {
		add(node)
	}
}

// checkTag refuses tags that would change the meaning of a list or a map, such as !!set.
func (r *yamlReader) checkTag(node *yaml.Node, want string) {
	if node.Style&yaml.TaggedStyle != 0 && node.ShortTag() != want && node.Tag != "!" {
		r.refuse(node, "tag %s is not supported", node.Tag)
	}
}

// readScalar returns the value of a scalar: by its tag if it has one, a text if quoted, otherwise
// by its form.
func (r *yamlReader) readScalar(node *yaml.Node) any {
	tag := ""
	if node.Style&yaml.TaggedStyle != 0 {
		tag = node.ShortTag()
	}
	switch {
	case tag == "!!str" || tag == "!" || tag == "!!timestamp":
		return node.Value
	case tag == "!!binary":
		return r.readBinary(node)
	case tag == "" && !isPlain(node):
		return node.Value
	}
	value, err := resolvePlain(node.Value)
	if err != nil {
		r.refuse(node, "%s: %w", node.Value, err)
		return nil
	}
	if tag != "" && !fitsTag(tag, value) {
		r.refuse(node, "%q cannot be read as %s", node.Value, node.Tag)
	}
	return value
}

// isPlain reports whether a scalar has no quotes and no tag, and is no block.
func isPlain(node *yaml.Node) bool {
	const texts = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return node.Style&(texts|yaml.TaggedStyle) == 0
}
