package values

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// excerpt is the text of that part of a tree which a patch can reach, so that a patch of a few values does not cost writing and
// reading a megabyte. Everything else stands in the text as a number like 17e0, which canonical JSON never contains, and is put
// back afterwards, the same subtree as before.
type excerpt struct {
	hidden []any
}

const hiddenSuffix = "e0"

// write appends the tree as far as one of the paths leads below it.
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

// writeList opens all elements as far as any path leads: which element a path means depends on the operations before it.
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

// read gives the tree of a text that was written by write and changed since.
func (e *excerpt) read(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var raw any
	if err := decoder.Decode(&raw); err != nil {
		return nil, fmt.Errorf("patched values: %w", err)
	}
	return e.restore(raw)
}

// restore writes into its argument, which is not shared yet.
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
