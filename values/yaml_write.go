package values

import (
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
	if _, err := JSON(tree); err != nil {
		return nil, err
	}
	text, err := encode(yamlNode(tree))
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

// yamlNode builds the nodes of a tree, instead of passing it to the encoder, which quotes by the rules of YAML 1.2.
func yamlNode(tree any) *yaml.Node {
	node := &yaml.Node{}
	switch v := tree.(type) {
	case string:
		return textNode(v)
	case []any:
		node.Kind, node.Tag = yaml.SequenceNode, "!!seq"
		for _, child := range v {
			node.Content = append(node.Content, yamlNode(child))
		}
	case map[string]any:
		node.Kind, node.Tag = yaml.MappingNode, "!!map"
		for _, key := range sortedKeys(v) {
			name := textNode(key)
			if name.Style == yaml.LiteralStyle { // as a key, a block would need the form with a question mark
				name.Style = yaml.DoubleQuotedStyle
			}
			node.Content = append(node.Content, name, yamlNode(v[key]))
		}
	default:
		text, _ := JSON(tree) // it is a tree
		return &yaml.Node{Kind: yaml.ScalarNode, Value: string(text)}
	}
	if len(node.Content) == 0 {
		node.Style = yaml.FlowStyle
	}
	return node
}

// textNode chooses the style that keeps a text a text: plain if it cannot be misread, a block for
// several ordinary lines, double quotes for everything else.
func textNode(s string) *yaml.Node {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	odd := func(r rune) bool { return r == utf8.RuneError || r != '\n' && r != '\t' && !unicode.IsPrint(r) }
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch {
	case strings.ContainsFunc(s, odd), strings.Contains(s, "\t"), !isSafePlain(s):
		node.Style = yaml.DoubleQuotedStyle
	case !strings.Contains(s, "\n"):
	case !strings.Contains(strings.TrimRight(s, "\n"), "\n") || strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n") || strings.Contains(s+"\n", " \n"):
		node.Style = yaml.DoubleQuotedStyle // a block would lose or misread blanks
	default:
		node.Style = yaml.LiteralStyle
	}
	return node
}

// isSafePlain reports whether the form of a text requires no quotes. The encoder adds those that the grammar requires
// (a leading dash, a colon and so on). Other parsers read 1:30 as a number of base 60, = and << as special words, and
// dates as dates.
func isSafePlain(s string) bool {
	value, err := resolvePlain(s)
	date := len(s) > 4 && s[4] == '-' && allDigits(s[:4])
	base60 := strings.Contains(s, ":") && strings.Trim(s, "+-0123456789_:.") == ""
	return err == nil && value == any(s) && s != "=" && s != "<<" && !date && !base60
}
