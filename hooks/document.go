package hooks

import (
	"bytes"
	"errors"
	"fmt"

	"addon-operator/values"
)

// parseDocument reads the one JSON or YAML object that a hook printed (C4), as values are read.
func parseDocument(data []byte) (map[string]any, error) {
	tree, err := values.ParseYAML(data)
	switch object, ok := tree.(map[string]any); {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New("the hook printed nothing; print a JSON or YAML object with configVersion and the bindings")
	case err != nil:
		return nil, fmt.Errorf("the hook printed neither JSON nor YAML that can be read: %w", err)
	case !ok:
		return nil, fmt.Errorf("the hook printed %s; print a JSON or YAML object, and nothing else, to stdout", typeName(tree))
	default:
		return object, nil
	}
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
	}
	return "a number"
}
