package values

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// describe names the type of a tree as a user of YAML would. Errors use it instead of the value,
// which may be a secret.
func describe(tree any) string {
	switch tree.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case int64, json.Number:
		return "an integer"
	case float64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	}
	return "not a JSON value"
}

// sortedKeys returns the keys of a map in the order in which everything is written and reported.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

// rebuilt returns a copy of a tree with other scalars, and other keys, which are texts, too.
func rebuilt(tree any, other func(any) (any, error)) (_ any, err error) {
	switch v := tree.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, child := range v {
			named, _ := other(key)
			name, _ := named.(string)
			if out[name], err = rebuilt(child, other); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			if out[i], err = rebuilt(child, other); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return other(tree)
}

// isContainer reports whether a tree can be a section: a map or a list (D1).
func isContainer(tree any) bool {
	_, list := tree.([]any)
	return list || isMapOf(tree)
}

// emptyLike returns an empty list for a list, otherwise an empty map.
func emptyLike(tree any) any {
	if _, ok := tree.([]any); ok {
		return []any{}
	}
	return map[string]any{}
}

// isEmpty reports whether a section has no content. Scalars and nil are not empty.
func isEmpty(section any) bool { return isContainer(section) && reflect.ValueOf(section).Len() == 0 }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func allDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// Merge merges trees; the later one wins (D6). Maps are merged key by key at every depth, lists and
// scalars are replaced as a whole. A nil layer is absent; an explicit null inside of a map is a
// value and stays, because Helm removes a value of the chart for it. The arguments are not changed;
// the result shares their subtrees.
func Merge(layers ...any) any {
	var merged any
	for _, layer := range layers {
		if layer != nil {
			merged = mergeTwo(merged, layer)
		}
	}
	return merged
}

func mergeTwo(lower, upper any) any {
	below, isBelow := lower.(map[string]any)
	above, isAbove := upper.(map[string]any)
	if !isBelow || !isAbove || len(below) == 0 {
		return upper
	}
	merged := maps.Clone(below)
	for key, value := range above {
		merged[key] = mergeTwo(merged[key], value)
	}
	return merged
}
