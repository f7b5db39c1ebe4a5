package scenario

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"addon-operator/values"
)

// A map is part of another one when all its keys are. A list must be as long as the
// other. null stands for an absent key, {$regex: TEXT} for a text that matches.

// difference lists where got is not what is wanted, each place with both.
func difference(place string, want, got any) []string {
	switch w := want.(type) {
	case tree:
		return difference(place, map[string]any(w), got)
	case map[string]any:
		if pattern, ok := w["$regex"].(string); ok && len(w) == 1 {
			return matchText(place, pattern, got)
		}
		if g, ok := got.(map[string]any); ok {
			return mapDifference(place, w, g)
		}
		return []string{unlike(place, want, got)}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return []string{unlike(place, want, got)}
		}
		var list []string
		for i := range w {
			list = append(list, difference(fmt.Sprintf("%s[%d]", place, i), w[i], g[i])...)
		}
		return list
	}
	if !same(want, got) {
		return []string{unlike(place, want, got)}
	}
	return nil
}

func mapDifference(place string, want, got map[string]any) (list []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value, exists := got[key]
		at := keyed(place, key)
		switch {
		case want[key] == nil && exists && value != nil:
			list = append(list, fmt.Sprintf("%s must be absent, is %s", at, short(value)))
		case want[key] == nil:
		case !exists:
			list = append(list, fmt.Sprintf("%s must be %s, is absent%s", at, short(want[key]), others(got)))
		default:
			list = append(list, difference(at, want[key], value)...)
		}
	}
	return list
}

func keyed(place, key string) string {
	if regexp.MustCompile(`[^A-Za-z0-9_-]`).MatchString(key) {
		return place + "[" + strconv.Quote(key) + "]"
	}
	if place == "" {
		return key
	}
	return place + "." + key
}

func others(got map[string]any) string {
	if len(got) == 0 || len(got) > 12 {
		return ""
	}
	return fmt.Sprintf("; there are %v", slices.Sorted(maps.Keys(got)))
}

func matchText(place, pattern string, got any) []string {
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return []string{fmt.Sprintf("%s: $regex: %v", place, err)}
	}
	text, ok := got.(string)
	if !ok {
		text = short(got)
	}
	if !expression.MatchString(text) {
		return []string{fmt.Sprintf("%s must match %s, is %s", place, pattern, short(got))}
	}
	return nil
}

func unlike(place string, want, got any) string {
	return fmt.Sprintf("%s must be %s, is %s", cmp.Or(place, "it"), short(want), short(got))
}

// same compares scalars; 1 and 1.0 are the same number.
func same(a, b any) bool {
	x, isNumber := number(a)
	y, too := number(b)
	if isNumber && too {
		return x == y
	}
	return a == b
}

func number(value any) (float64, bool) {
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}
	return 0, false
}

// short is a value for a message.
func short(value any) string {
	if t, ok := value.(tree); ok {
		value = map[string]any(t)
	}
	data, err := values.JSON(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	const longest = 300
	if len(data) > longest {
		return string(data[:longest]) + "…"
	}
	return string(data)
}

// withTexts returns an object whose Secret data can be compared as stringData, too.
func withTexts(object map[string]any) map[string]any {
	data, ok := object["data"].(map[string]any)
	if object["kind"] != "Secret" || !ok {
		return object
	}
	texts := map[string]any{}
	for key, value := range data {
		encoded, _ := value.(string)
		if text, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			texts[key] = string(text)
		}
	}
	out := maps.Clone(object)
	out["stringData"] = texts
	return out
}

// identity names an object: "v1 Secret default/a".
func identity(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	name := fmt.Sprint(meta["name"])
	if namespace, _ := meta["namespace"].(string); namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%v %v %s", object["apiVersion"], object["kind"], name)
}
