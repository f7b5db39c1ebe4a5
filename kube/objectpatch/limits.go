package objectpatch

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
)

// maxExpanded bounds a document of YAML with its aliases written out, in bytes; the API server
// takes objects of 1.5 MiB. The reader of YAML writes them all out, and a few lines can stand for
// more than there is memory (D39).
const maxExpanded = 4 << 20

// maxDocuments bounds what a file of small documents leads to (K1): each takes some kilobytes before it is
// applied. The size of the file itself is limited by its reader.
const maxDocuments = 50_000

var errTooManyDocuments = fmt.Errorf("there are more than %d operations; write fewer in one run", maxDocuments)

// checkYAML refuses a text whose aliases stand for more than 4 MiB, and keys that a map has twice, unless one of them is
// merged ("<<"). It must come before the text is read, and costs a parse of its own.
func checkYAML(text []byte) error {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return err
	}
	if e := (expansion{}); e.size(&document) > maxExpanded {
		return fmt.Errorf("the document is larger than %d MiB when all aliases are written out; remove values or aliases", maxExpanded>>20)
	}
	return checkKeys(&document)
}

func checkKeys(node *yaml.Node) error {
	lines := map[[2]string]int{}
	for i, child := range node.Content { // an alias has none: what it refers to is checked where it is
		if node.Kind == yaml.MappingNode && i%2 == 0 && child.Kind == yaml.ScalarNode && child.Tag != "!!merge" {
			key := [2]string{child.ShortTag(), child.Value}
			if first := lines[key]; first > 0 {
				return fmt.Errorf("line %d: key %q is already set in line %d", child.Line, child.Value, first)
			}
			lines[key] = child.Line
		}
		if err := checkKeys(child); err != nil {
			return err
		}
	}
	return nil
}

// checkJSONKeys refuses keys that an object has twice, for JSON, whose parser names the path of a key instead of its line.
func checkJSONKeys(text []byte) error {
	var tree any
	twice, err := kjson.UnmarshalStrict(text, &tree, kjson.DisallowDuplicateFields)
	return errors.Join(append(twice, err)...)
}

// expansion holds the sizes of nodes that aliases refer to, so that each node is counted once: a
// chain of aliases in which each line doubles the one before takes no time that doubles.
type expansion map[*yaml.Node]int

// size counts about the bytes of the JSON of a node; it stops above the limit.
func (e expansion) size(node *yaml.Node) int {
	if size, known := e[node]; known {
		return size
	}
	if node.Kind == yaml.AliasNode {
		return e.size(node.Alias)
	}
	const quotesAndComma = 3
	if node.Anchor != "" {
		e[node] = 0 // ends the recursion at an alias inside of it, which the reader refuses
	}
	size := len(node.Value) + quotesAndComma
	for _, child := range node.Content {
		if size += e.size(child); size > maxExpanded {
			break
		}
	}
	if node.Anchor != "" {
		e[node] = size
	}
	return size
}
