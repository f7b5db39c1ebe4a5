package values

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// excerpt is the text of the part of a tree that a patch can reach, so that a patch of a few values
// does not cost writing and reading a megabyte. Every other subtree is written as a number such as
// 17e0, its index in hidden with a suffix, and put back afterwards, unchanged and shared. Canonical
// JSON has no such number, so it cannot be confused with a value.
type excerpt struct {
	hidden []any
}

const hiddenSuffix = "e0"

// write appends the tree as far as one of the paths leads below it. Paths are relative to the tree;
// a scalar is always written.
func (e *excerpt) write(out []byte, tree any, paths []pointer) ([]byte, error) {
	switch container := tree.(type) {
	case map[string]any:
		if len(paths) > 0 {
			return e.writeMap(out, container, paths)
		}
	case []any:
		if len(paths) > 0 {
			return e.writeList(out, container, paths)
		}
	default:
		return appendJSON(out, tree)
	}
	e.hidden = append(e.hidden, tree)
	return append(strconv.AppendInt(out, int64(len(e.hidden)-1), 10), hiddenSuffix...), nil
}

// writeMap opens only the children on a path. All keys are written: the patch may add or remove any
// of them.
func (e *excerpt) writeMap(out []byte, m map[string]any, paths []pointer) ([]byte, error) {
	below := map[string][]pointer{}
	for _, path := range paths {
		if len(path) > 1 {
			below[path[0]] = append(below[path[0]], path[1:])
		}
	}
	out = append(out, '{')
	first := true
	for key, child := range m {
		if !first {
			out = append(out, ',')
		}
		first = false
		var err error
		if out, err = e.write(append(appendString(out, key), ':'), child, below[key]); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// writeList opens all elements as far as any path leads: which element a path means depends on the
// operations before it.
func (e *excerpt) writeList(out []byte, list []any, paths []pointer) ([]byte, error) {
	var below []pointer
	for _, path := range paths {
		if len(path) > 1 {
			below = append(below, path[1:])
		}
	}
	out = append(out, '[')
	for i, child := range list {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = e.write(out, child, below); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

// read returns the tree of a text that write has written and the library has changed since.
func (e *excerpt) read(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var raw any
	if err := decoder.Decode(&raw); err != nil {
		return nil, fmt.Errorf("patched values: %w", err)
	}
	return e.restore(raw)
}

// restore puts the hidden subtrees back. It writes into its argument, which is not shared yet, but
// never into a hidden subtree.
func (e *excerpt) restore(raw any) (any, error) {
	var err error
	switch v := raw.(type) {
	case map[string]any:
		for key, child := range v {
			if v[key], err = e.restore(child); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, child := range v {
			if v[i], err = e.restore(child); err != nil {
				return nil, err
			}
		}
	case json.Number:
		if digits, ok := strings.CutSuffix(string(v), hiddenSuffix); ok {
			index, err := strconv.Atoi(digits)
			if err != nil || index >= len(e.hidden) {
				return nil, fmt.Errorf("patched values: unexpected number %s", v)
			}
			return e.hidden[index], nil
		}
		return number(string(v))
	}
	return raw, nil
}
