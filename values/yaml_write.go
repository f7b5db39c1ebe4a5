package values

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

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
