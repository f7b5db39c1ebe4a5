package values

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ParseYAML reads the one YAML document of a text that is not empty into a tree; nil if there is none.
//
// It reads scalars as sigs.k8s.io/yaml does, so values mean what they mean in any other file of a cluster: unquoted
// yes, no, on, off, y and n are booleans, timestamps are texts, keys that are integers are texts of decimal digits.
// It is stricter where a silent choice would hurt: it refuses duplicate keys, other keys that are no texts, tags but
// !!str, infinities, and what exceeds the limits with its aliases written out (D39). The error names the line of the
// first mistake. JSON is YAML, also with escapes that the library does not read, such as surrogate pairs.
func ParseYAML(data []byte) (any, error) {
	documents, err := ParseYAMLDocuments(data)
	switch {
	case err != nil || len(documents) == 0:
		return nil, err
	case len(documents) > 1:
		return nil, fmt.Errorf("line %d: a second document begins; write only one", documents[1].node.Line)
	}
	return documents[0].Tree, nil
}

// YAMLDocument is one document of a stream. It keeps the nodes, so that a message about a value can
// name its position.
type YAMLDocument struct {
	Tree any
	node *yaml.Node
}

// ParseYAMLDocuments reads all documents of a stream that are not empty, by the rules of ParseYAML: a separator at
// the end of a file makes an empty one. The limits apply to each document. The library does not expand aliases in
// nodes, so it is safe before they are checked.
func ParseYAMLDocuments(data []byte) (documents []YAMLDocument, err error) {
	if err := CheckSize(int64(len(data))); err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var node yaml.Node
		if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil && json.Valid(data) { // with escapes that the library does not read
			tree, err := ParseJSON(data)
			return []YAMLDocument{{tree, &yaml.Node{Content: []*yaml.Node{{Line: 1, Column: 1}}}}}, err
		} else if err != nil {
			return nil, syntaxError(err, data)
		}
		if len(node.Content) == 0 || node.Content[0].ShortTag() == "!!null" {
			continue
		}
		reader := yamlReader{anchors: map[*yaml.Node]any{}}
		tree, err := reader.read(&node)
		if err := cmp.Or(err, bounded(tree)); err != nil {
			return nil, err
		}
		documents = append(documents, YAMLDocument{Tree: tree, node: &node})
	}
}

// Position returns the line and the column, from 1, of the key or element at a path of keys and
// indexes, or of the innermost one on the way that the document has; found reports whether it has all of it.
func (d YAMLDocument) Position(path []string) (line, column int, found bool) {
	node := d.node.Content[0]
	at := node
	for _, step := range path {
		for node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		i := find(node, step)
		if i < 0 {
			return at.Line, at.Column, false
		}
		if at = node.Content[i]; node.Kind == yaml.MappingNode {
			at = node.Content[i-1]
		}
		node = node.Content[i]
	}
	return at.Line, at.Column, true
}

// syntaxError removes the name of the library and returns the line of the text where the mistake
// is, or begins. The parser of the library counts lines from 0, its scanner from 1, and neither
// reports line 0; only the texts show which of the two an error is from.
func syntaxError(err error, data []byte) error {
	parts := regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`).FindStringSubmatch(err.Error())
	if len(parts) == 0 || strings.HasPrefix(parts[2], "unknown anchor") {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: ")) // it could be anywhere
	}
	line, _ := strconv.Atoi(parts[1])
	parser := regexp.MustCompile(`^(did not find expected (<|node content|'-' indicator|key$|',' or)|found (undefined tag handle|duplicate %|incompatible YAML))`)
	if line == 0 || parser.MatchString(parts[2]) {
		line++
	}
	last := bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n")) + 1 // the end of the text is no line of its own
	return fmt.Errorf("line %d: %s", min(line, last), parts[2])
}

// yamlReader converts nodes into trees. Aliases share the tree of their anchor, so the work is about that of the text.
type yamlReader struct {
	anchors map[*yaml.Node]any // the trees of anchors, unfinished{} while they are read
	keys    int                // how many keys maps have, those of aliases and "<<", too
}

type unfinished struct{}

// key counts a key of a map. Unlike the trees of aliases, keys and merged maps are not shared: a few lines could copy
// a large map thousands of times.
func (r *yamlReader) key(node *yaml.Node) error {
	if r.keys++; r.keys > maxNodes {
		return refuse(node, "%w", errTooLarge)
	}
	return nil
}

// refuse names the line of a mistake.
func refuse(node *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{node.Line}, args...)...)
}

// read returns the tree of a node.
func (r *yamlReader) read(node *yaml.Node) (tree any, err error) {
	if node.Anchor != "" && node.Kind != yaml.AliasNode {
		r.anchors[node] = unfinished{}
		defer func() { r.anchors[node] = tree }()
	}
	if node.Style&yaml.TaggedStyle != 0 && node.ShortTag() != "!!str" {
		return nil, refuse(node, "the tag %s is not supported; remove it", brief(node.Tag))
	}
	switch node.Kind {
	case yaml.DocumentNode:
		return r.read(node.Content[0])
	case yaml.AliasNode:
		tree = r.anchors[node.Alias]
		if _, open := tree.(unfinished); open {
			return nil, refuse(node, "alias *%s is inside the value that it refers to", brief(node.Value))
		}
		return tree, nil
	case yaml.SequenceNode:
		return r.readList(node)
	case yaml.MappingNode:
		return r.readMap(node)
	}
	return readScalar(node)
}

func (r *yamlReader) readList(node *yaml.Node) (any, error) {
	list := make([]any, 0, len(node.Content))
	for _, child := range node.Content {
		element, err := r.read(child)
		if err != nil {
			return nil, err
		}
		list = append(list, element)
	}
	return list, nil
}

// readMap reads the own keys of a map before its merge keys ("<<"), wherever these stand: own keys
// win.
func (r *yamlReader) readMap(node *yaml.Node) (any, error) {
	m := make(map[string]any, len(node.Content)/2)
	lines := make(map[string]int, len(node.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		keyNode, valueNode := node.Content[i], node.Content[i+1]
		if isMergeKey(keyNode) {
			merges = append(merges, valueNode)
			continue
		}
		key, err := r.readKey(keyNode)
		if err == nil {
			err = r.key(keyNode)
		}
		if err != nil {
			return nil, err
		}
		if first, twice := lines[key]; twice {
			return nil, refuse(keyNode, "key %q is already set in line %d", brief(key), first)
		}
		if m[key], err = r.read(valueNode); err != nil {
			return nil, err
		}
		lines[key] = keyNode.Line
	}
	for _, source := range merges {
		if err := r.mergeInto(m, source); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// readKey accepts texts, and integers, as in "8080: ns/svc:80" (D4), but not 1.0 and 1e3, which are integers as values
// only; in hexadecimal numbers e is a digit. Fractions and booleans as keys would have to be converted into texts by
// guessing: on, for example, would become "true".
func (r *yamlReader) readKey(node *yaml.Node) (string, error) {
	tree, err := r.read(node)
	if err != nil {
		return "", err
	}
	switch key := tree.(type) {
	case string:
		return key, nil
	case int64, json.Number:
		hexadecimal := strings.HasPrefix(strings.TrimLeft(strings.ToLower(node.Value), "+-"), "0x")
		if node.Kind == yaml.ScalarNode && (hexadecimal || !strings.ContainsAny(node.Value, ".eE")) {
			return fmt.Sprint(key), nil
		}
	}
	return "", refuse(node, "key %s is %s, not a string; write %q in quotes", brief(node.Value), describe(tree), brief(node.Value))
}

// find returns the index of a value in the content of a map or a list, or -1. Keys that a map gets by "<<" are not
// found: they belong to another place of the text. Nor are integers in another form than the decimal one.
func find(node *yaml.Node, element string) int {
	if index, ok := listIndex(element); node.Kind == yaml.SequenceNode && ok && index < len(node.Content) {
		return index
	}
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if key := node.Content[i]; key.Value == element && key.Kind == yaml.ScalarNode && !isMergeKey(key) {
			return i + 1
		}
	}
	return -1
}

// isMergeKey recognizes the unquoted <<; in quotes it is a key like any other.
func isMergeKey(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Value == "<<" && (isPlain(node) || node.ShortTag() == "!!merge")
}

// mergeInto adds the keys of "<<: *defaults" that the map does not set itself. In a list of maps
// the first one wins. It writes into m, which was just read, never into the defaults, which are
// shared.
func (r *yamlReader) mergeInto(m map[string]any, source *yaml.Node) error {
	sources := []*yaml.Node{source}
	if source.Kind == yaml.SequenceNode {
		sources = source.Content
	}
	for _, node := range sources {
		tree, err := r.read(node)
		if err != nil {
			return err
		}
		defaults, ok := tree.(map[string]any)
		if !ok {
			return refuse(node, "<< needs a map or a list of maps")
		}
		for key, value := range defaults {
			if err := r.key(node); err != nil {
				return err
			}
			if _, set := m[key]; !set {
				m[key] = value
			}
		}
	}
	return nil
}

// readScalar returns the value of a scalar: a text if quoted or tagged as one, otherwise by its form.
func readScalar(node *yaml.Node) (any, error) {
	if !isPlain(node) {
		return node.Value, nil
	}
	value, err := resolvePlain(node.Value)
	if err != nil {
		return nil, refuse(node, "%s: %w", brief(node.Value), err)
	}
	return value, nil
}

// isPlain reports whether a scalar has no quotes and no tag, and is no block.
func isPlain(node *yaml.Node) bool {
	const texts = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return node.Style&(texts|yaml.TaggedStyle) == 0
}

// resolvePlain returns the value of an unquoted scalar, as sigs.k8s.io/yaml reads it, with two
// differences that D4 requires: integers beyond 64 bits stay integers, and a number without a
// fraction is an integer.
func resolvePlain(text string) (any, error) {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return nil, nil
	case "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON":
		return true, nil
	case "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF":
		return false, nil
	case ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF":
		return nil, errors.New("infinite and undefined numbers cannot be written as JSON")
	}
	if !isDigit(text[0]) && !strings.ContainsRune(".+-", rune(text[0])) {
		return text, nil
	}
	value := resolveNumber(text)
	if n, ok := value.(json.Number); ok && len(n) > maxDigits {
		return nil, errTooManyDigits
	}
	return value, nil
}

// resolveNumber reads text that begins like a number: decimal, 0x, 0o, 0b and the old octal form
// 0777, with underscores as separators. Text that is no number after all stays text.
func resolveNumber(text string) any {
	digits := strings.ReplaceAll(text, "_", "")
	if i, err := strconv.ParseInt(digits, 0, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(digits, 0, 64); err == nil {
		return json.Number(strconv.FormatUint(u, 10))
	}
	if plain := strings.TrimLeft(digits[:1], "+-") + digits[1:]; allDigits(plain) && plain[0] != '0' {
		return json.Number(strings.TrimPrefix(digits, "+"))
	}
	if strings.Trim(digits, "0123456789+-.eE") == "" { // no hexadecimal floats, no Infinity
		if f, err := strconv.ParseFloat(digits, 64); err == nil {
			return float(f)
		}
	}
	return text
}

// YAML writes a tree as the text of a ConfigMap section: block style, two blanks of indentation,
// keys sorted, texts of several lines as blocks. ParseYAML reads exactly the same tree back; where the library would
// write something that it does not read so, the text is JSON, which is YAML, too.
func YAML(tree any) ([]byte, error) {
	want, err := JSON(tree)
	if err != nil {
		return nil, err
	}
	text, err := encode(yamlNode(tree))
	if again, errRead := ParseYAML([]byte(text)); errRead != nil || Checksum(again) != Checksum(tree) {
		return bytes.ReplaceAll(want, []byte("\u0085"), []byte(`\u0085`)), err // a line break of YAML
	}
	return []byte(text), err
}

// encode writes a node with two blanks of indentation.
func encode(node *yaml.Node) (string, error) {
	plainMerge(node)
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(node), encoder.Close()); err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return out.String(), nil
}

// plainMerge makes the library write << without its tag.
func plainMerge(node *yaml.Node) {
	if node.Tag == "!!merge" {
		node.Tag = ""
	}
	for _, child := range node.Content {
		plainMerge(child)
	}
}

// yamlNode returns the node of a tree. The library would write integers that do not fit into an int64 as strings.
func yamlNode(tree any) *yaml.Node {
	var node yaml.Node
	unquoted, _ := rebuilt(tree, func(scalar any) (any, error) {
		if n, ok := scalar.(json.Number); ok {
			return &yaml.Node{Kind: yaml.ScalarNode, Value: string(n)}, nil
		}
		return scalar, nil
	})
	_ = node.Encode(unquoted) // it is a tree
	return &node
}

// ParseJSON reads exactly one JSON value into a tree. Integers stay integers, whatever their size (D4). It refuses
// numbers beyond the range of a float64, and what exceeds the limits (D39). Of duplicate keys the last one wins.
func ParseJSON(data []byte) (any, error) {
	if err := CheckSize(int64(len(data))); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var raw any
	if err := decoder.Decode(&raw); err != nil {
		return nil, jsonError(data, decoder, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: more text after the end of the JSON value", lineAt(data, decoder.InputOffset()))
	}
	tree, err := rebuilt(raw, numbers)
	return tree, cmp.Or(err, bounded(tree))
}

// jsonError adds the line to an error of the decoder. Syntax errors have an offset of their own;
// the decoder's is that of the last token that it read.
func jsonError(data []byte, decoder *json.Decoder, err error) error {
	offset := decoder.InputOffset()
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = syntax.Offset
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("unexpected end of the JSON text")
	}
	return fmt.Errorf("line %d: %w", lineAt(data, offset), err)
}

// lineAt counts lines from 1, as editors do.
func lineAt(data []byte, offset int64) int {
	offset = min(max(offset, 0), int64(len(data)))
	return 1 + bytes.Count(data[:offset], []byte{'\n'})
}

// numbers converts the json.Numbers of a value that was decoded into the numbers of a tree.
func numbers(raw any) (any, error) {
	if n, ok := raw.(json.Number); ok {
		return number(string(n))
	}
	return raw, nil
}

// number converts the text of a JSON number. An integer beyond int64 stays text, because a float64
// would lose digits; so does one with an exponent, as long as its digits are within the limit.
func number(text string) (any, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	if !strings.ContainsAny(text, ".eE") {
		if len(text) > maxDigits {
			return nil, errTooManyDigits
		}
		return json.Number(text), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("number %s does not fit into 64 bits", brief(text))
	}
	return float(f), nil
}

// float returns the tree of a float64: an integer if it has no fraction and at most a hundred digits.
func float(f float64) any {
	if f != math.Trunc(f) || math.Abs(f) >= 1e100 {
		return f
	}
	integer, _ := number(strconv.FormatFloat(f, 'f', -1, 64))
	return integer
}

// Encode is json.Marshal without the escaping of <, > and &, which only makes sense inside HTML.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// JSON writes a tree in canonical form: keys sorted, no white space, no HTML escaping, integers
// without exponent. Equal trees give equal bytes.
func JSON(tree any) ([]byte, error) {
	text, err := Encode(tree)
	return bytes.ReplaceAll(text, []byte{0x7f}, []byte(`\u007f`)), err // which YAML does not read
}

// Checksum returns the hexadecimal SHA-256 of the canonical JSON of a tree. Two trees have the same
// checksum exactly when they hold the same values; "changed" in the rules of the lifecycle means
// that the checksum changed (D27).
func Checksum(tree any) string {
	text, err := JSON(tree)
	if err != nil { // not a tree; it still needs a checksum that differs from those of trees
		text = []byte("invalid: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
