package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
)

// parseDocument reads the one JSON or YAML object that a hook printed (C4). Numbers are int64,
// uint64 or float64. The number of values is checked before anything else is made of them, because
// YAML aliases multiply them.
func parseDocument(data []byte) (map[string]any, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the hook printed nothing; print a JSON or YAML object with configVersion and the bindings")
	}
	var tree any
	var err error
	// Most JSON is YAML, but not all: tabs between tokens and surrogate pairs are not.
	if json.Valid(data) {
		tree, err = parseJSON(data)
	} else {
		tree, err = parseYAML(data)
	}
	if err != nil {
		return nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the hook printed %s; print a JSON or YAML object, and nothing else, to stdout", typeName(tree))
	}
	if elements(object) > maxConfigValues {
		return nil, errTooManyValues
	}
	found := &report{}
	for key, value := range object {
		object[key] = plain(place{path: joinKey("", key), value: value, report: found})
	}
	return object, found.err()
}

// maxConfigValues bounds the keys and values of a configuration. A report about each of them takes
// a kilobyte, and the reader of YAML compares the keys of a map with each other.
const maxConfigValues = 50_000

var errTooManyValues = fmt.Errorf("the hook printed more than %d keys and values, with all aliases written out; print fewer", maxConfigValues)

// written counts the keys and values of a document without following its aliases. It is the check
// before decoding; elements counts again afterwards, with aliases.
func written(node *yaml.Node) int {
	n := 1
	for _, child := range node.Content {
		n += written(child)
	}
	return n
}

// elements counts the keys and values of a tree.
func elements(tree any) int {
	n := 1
	switch v := tree.(type) {
	case []any:
		for _, child := range v {
			n += elements(child)
		}
	case map[string]any:
		for _, child := range v {
			n += 1 + elements(child)
		}
	case map[any]any:
		for _, child := range v {
			n += 1 + elements(child)
		}
	}
	return n
}

// parseJSON refuses duplicate keys, one of which would be lost silently.
func parseJSON(data []byte) (any, error) {
	var tree any
	duplicates, err := kjson.UnmarshalStrict(data, &tree)
	if err := errors.Join(append(duplicates, err)...); err != nil {
		return nil, fmt.Errorf("the hook printed JSON that cannot be read: %w", err)
	}
	return tree, nil
}

// parseYAML reads the one document that is not empty: people begin and end documents with ---,
// which makes empty ones.
func parseYAML(data []byte) (any, error) {
	var found *yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return decodeYAML(found)
		case err != nil:
			return nil, fmt.Errorf("the hook printed neither JSON nor YAML: %w", err)
		case isEmpty(&document):
		case found != nil:
			return nil, errors.New("the hook printed more than one document; print one, and everything else to stderr")
		default:
			found = &document
		}
	}
}

func decodeYAML(document *yaml.Node) (any, error) {
	if document == nil {
		return nil, nil
	}
	if written(document) > maxConfigValues {
		return nil, errTooManyValues
	}
	plainFlags(document)
	var tree any
	if err := document.Decode(&tree); err != nil {
		return nil, fmt.Errorf("the hook printed neither JSON nor YAML: %w", err)
	}
	return tree, nil
}

// isEmpty reports whether a document has no content, as after a trailing "---".
func isEmpty(document *yaml.Node) bool {
	return len(document.Content) == 0 || document.Content[0].Kind == yaml.ScalarNode && document.Content[0].Tag == "!!null"
}

// plainFlags replaces the unquoted words of YAML 1.1 for true and false (X32), at keys whose value
// is a flag: hooks were written for parsers of that version. Elsewhere such words are texts.
func plainFlags(node *yaml.Node) {
	for i, child := range node.Content {
		plainFlags(child)
		if node.Kind != yaml.MappingNode || i%2 == 0 || child.Kind != yaml.ScalarNode || child.Style != 0 {
			continue
		}
		if flag, known := oldFlag(child.Value); known && slices.Contains(flags(), node.Content[i-1].Value) {
			child.Tag, child.Value = "!!bool", strconv.FormatBool(flag)
		}
	}
}

// oldFlag reads the words for true and false that YAML 1.1 has in addition to those of YAML 1.2 and
// JSON.
func oldFlag(word string) (flag, known bool) {
	switch strings.ToLower(word) {
	case "yes", "on":
		return true, true
	case "no", "off":
		return false, true
	}
	return false, false
}

// flags returns the keys of v1 that take true or false. v0 accepts such words also in quotes (C21,
// flagV0).
func flags() []string {
	return []string{"allowFailure", "executeHookOnSynchronization", "waitForSynchronization", "keepFullObjectsInMemory"}
}

// plain converts the value of a YAML document to the types of JSON, and refuses what JSON cannot
// represent. It writes into the document.
func plain(p place) any {
	switch v := p.value.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = plain(place{path: joinKey(p.path, key), value: value, report: p.report})
		}
	case map[any]any:
		p.fail("has a key that is not a string; put it in quotes")
		return nil
	case []any:
		for i, value := range v {
			v[i] = plain(place{path: joinIndex(p.path, i), value: value, report: p.report})
		}
	case int:
		return int64(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			p.fail("must be a finite number")
			return nil
		}
	case time.Time:
		p.fail("reads as a date; put it in quotes")
		return nil
	}
	return p.value
}

// typeName returns the type of a value with its article, as JSON names it.
func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	case map[any]any:
		return "an object with keys that are not strings"
	}
	return "a number"
}
