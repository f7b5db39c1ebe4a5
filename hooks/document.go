package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
)

// parseDocument reads the one JSON or YAML object a hook printed (C4). Numbers are int64, uint64 or float64.
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
	found := &report{}
	for key, value := range object {
		object[key] = plain(place{path: joinKey("", key), value: value, report: found})
	}
	return object, found.err()
}

func parseJSON(data []byte) (any, error) {
	var tree any
	duplicates, err := kjson.UnmarshalStrict(data, &tree)
	if err := errors.Join(append(duplicates, err)...); err != nil {
		return nil, fmt.Errorf("the hook printed JSON that cannot be read: %w", err)
	}
	return tree, nil
}

func parseYAML(data []byte) (any, error) {
	var tree, more any
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&tree); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the hook printed neither JSON nor YAML: %w", err)
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("the hook printed more than one document; print one, and everything else to stderr")
	}
	return tree, nil
}

// plain brings the value of a YAML document into the types of JSON, and refuses what JSON cannot say.
func plain(p place) any {
	switch v := p.value.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = plain(place{path: joinKey(p.path, key), value: value, report: p.report})
		}
	case map[any]any:
		p.fail("has a key that is not text; put it in quotes")
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

// typeName says the type of a value with its article, in the words of JSON.
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
		return "an object with keys that are not text"
	}
	return "a number"
}
