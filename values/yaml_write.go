package values

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// YAML writes a tree as the text of a ConfigMap section: block style, two blanks of indentation,
// keys sorted, texts of several lines as blocks. ParseYAML reads exactly the same tree back: texts
// that look like something else are quoted. That includes what parsers of YAML 1.1 would read
// differently, because people also read the ConfigMap with other tools.
func YAML(tree any) ([]byte, error) {
	node, err := yamlNode(tree)
	if err != nil {
		return nil, err
	}
	text, err := encode(node)
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

// yamlNode builds nodes instead of passing the tree to the encoder, which quotes by the rules of
// YAML 1.2.
func yamlNode(tree any) (*yaml.Node, error) {
	switch v := tree.(type) {
	case string:
		return textNode(v), nil
	case []any:
		return listNode(v)
	case map[string]any:
		return mapNode(v)
	case json.Number:
		// The encoder takes integers of this size for floats and would write the tag !!int before
		// them.
		return plainNode("!!float", string(v)), nil
	case int64, int:
		return plainNode("!!int", fmt.Sprint(v)), nil
	case nil:
		return plainNode("!!null", "null"), nil
	case bool:
		return plainNode("!!bool", fmt.Sprint(v)), nil
	}
	text, err := JSON(tree)
	if err != nil {
		return nil, err
	}
	if !bytes.ContainsAny(text, ".eE") {
		return plainNode("!!int", string(text)), nil
	}
	return plainNode("!!float", string(text)), nil
}

// plainNode returns a scalar with the tag of its value. The encoder does not write the tag if the
// text resolves to it.
func plainNode(tag, text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
}

func listNode(list []any) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if len(list) == 0 {
		node.Style = yaml.FlowStyle
	}
	for _, child := range list {
		childNode, err := yamlNode(child)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, childNode)
	}
	return node, nil
}

func mapNode(m map[string]any) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if len(m) == 0 {
		node.Style = yaml.FlowStyle
	}
	for _, key := range sortedKeys(m) {
		value, err := yamlNode(m[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		// As a key, a block would need the form with a question mark.
		keyNode := textNode(key)
		if keyNode.Style == yaml.LiteralStyle {
			keyNode.Style = yaml.DoubleQuotedStyle
		}
		node.Content = append(node.Content, keyNode, value)
	}
	return node, nil
}

// textNode chooses the style that keeps a text a text: plain if it cannot be misread, a block for
// several ordinary lines, double quotes for everything else.
func textNode(s string) *yaml.Node {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch {
	case isBlockText(s):
		node.Style = yaml.LiteralStyle
	case !isSafePlain(s):
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}

// isSafePlain reports whether neither the characters of a text nor its form require quotes. The
// encoder adds quotes that the grammar requires (a leading dash, a colon and so on).
func isSafePlain(s string) bool {
	if value, err := resolvePlain(s); err != nil || value != any(s) {
		return false
	}
	// Other parsers read 1:30 as a number of base 60, = and << as special words, and dates as
	// dates.
	date := len(s) > 4 && s[4] == '-' && allDigits(s[:4])
	if s == "=" || s == "<<" || date || isBase60(s) {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) < 0
}

// isBase60 also accepts some harmless texts; quotes do not change them.
func isBase60(s string) bool {
	return strings.Contains(s, ":") && strings.Trim(s, "+-0123456789_:.") == ""
}

// isBlockText accepts several lines that a literal block preserves: printable, without blanks where
// a block would lose or misread them.
func isBlockText(s string) bool {
	if !strings.Contains(strings.TrimRight(s, "\n"), "\n") || s[0] == ' ' || s[0] == '\n' || s[0] == '\t' {
		return false
	}
	for line := range strings.SplitSeq(s, "\n") {
		if line != strings.TrimRight(line, " \t") {
			return false
		}
		for _, r := range line {
			if r == utf8.RuneError || r == '\ufeff' || (r != '\t' && !unicode.IsPrint(r)) {
				return false
			}
		}
	}
	return true
}
