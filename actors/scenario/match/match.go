package match

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"addon-operator/hooks"
	"addon-operator/values"
)

// matchers are what may stand in the place of a value. A map whose keys are all names of matchers
// is not compared: each of them must match. Each lists why got does not match; an absent key counts as null.
func matchers() map[string]func(place string, want, got any) []string {
	return map[string]func(place string, want, got any) []string{
		"$contains": matchContains, "$count": matchCount, "$jq": matchJQ, "$not": matchNot, "$regex": matchText,
	}
}

// AsMatchers reports whether a value is matchers: a map with nothing but names of them, and not an
// empty one, which is an ordinary map that any map fits.
func AsMatchers(want any) (map[string]any, bool) {
	w, ok := want.(map[string]any)
	if !ok || len(w) == 0 {
		return nil, false
	}
	known := matchers()
	for key := range w {
		if _, ok := known[key]; !ok {
			return nil, false
		}
	}
	return w, true
}

// CheckMatchers finds matchers that cannot match, and keys that look like misspelt ones: those that
// begin with $ and are near to a matcher. Other keys with $ are fields, as in a JSON Schema that a
// ConfigMap holds.
func CheckMatchers(path []string, want any, report func(path []string, text string)) {
	switch w := want.(type) {
	case []any:
		for i := range w {
			CheckMatchers(append(slices.Clone(path), strconv.Itoa(i)), w[i], report)
		}
	case map[string]any:
		known := matchers()
		names := slices.Sorted(maps.Keys(known))
		for _, key := range slices.Sorted(maps.Keys(w)) {
			at := append(slices.Clone(path), key)
			_, is := known[key]
			_, alone := AsMatchers(w)
			switch best := values.Nearest(key, names); {
			case key == "$count" && w["kind"] != nil: // how many objects there must be, not how a field of one is
			case is && !alone:
				report(at, fmt.Sprintf("%s is a matcher, but there are other keys next to it; write it below the key that it applies to", key))
			case is:
				if err := wrongArgument(key, w[key]); err != nil {
					report(at, key+": "+err.Error())
				}
			case strings.HasPrefix(key, "$") && best != "":
				report(at, fmt.Sprintf("%s is unknown; did you mean %s?", key, best))
			}
			CheckMatchers(at, w[key], report)
		}
	}
}

// Difference lists where got is not what is wanted, each place with both. The comparison is
// partial: of a map, only the keys that are wanted count, at every depth, and null is wanted where
// a key must be absent. A list must have the length of the wanted one, and each element is compared
// with the one at its place. place is how authors write the place: spec.ports[0].
func Difference(place string, want, got any) []string {
	if asked, ok := AsMatchers(want); ok {
		known := matchers()
		var list []string
		for _, key := range slices.Sorted(maps.Keys(asked)) {
			list = append(list, known[key](place, asked[key], got)...)
		}
		return list
	}
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return mapDifference(place, w, g)
		}
		problem := unlike(place, want, got)
		if keys := slices.Collect(maps.Keys(w)); len(keys) == 1 && strings.HasPrefix(keys[0], "$") {
			problem += fmt.Sprintf("; matchers are %v", slices.Sorted(maps.Keys(matchers())))
		}
		return []string{problem}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return []string{unlike(place, want, got)}
		}
		var list []string
		for i := range w {
			list = append(list, Difference(fmt.Sprintf("%s[%d]", place, i), w[i], g[i])...)
		}
		return list
	}
	if !Same(want, got) {
		return []string{unlike(place, want, got)}
	}
	return nil
}

// mapDifference compares the keys that are wanted. Where one is missing, the difference shows which
// keys there are: most often it is misspelt.
func mapDifference(place string, want, got map[string]any) (list []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		for _, problem := range Difference(keyed(place, key), want[key], got[key]) {
			if n := len(got); got[key] == nil && n > 0 && n <= 12 {
				problem += fmt.Sprintf("; there are %v", slices.Sorted(maps.Keys(got)))
			}
			list = append(list, problem)
		}
	}
	return list
}

// keyed is the place of a key, in quotes if it has other letters than those of names, as the
// annotation meta.helm.sh/release-name.
func keyed(place, key string) string {
	if regexp.MustCompile(`[^A-Za-z0-9_-]`).MatchString(key) {
		return place + "[" + strconv.Quote(key) + "]"
	}
	if place == "" {
		return key
	}
	return place + "." + key
}

// wrongArgument says why a matcher can never match.
func wrongArgument(name string, want any) (err error) {
	text, isText := want.(string)
	asked, _ := want.(map[string]any)
	n, isNumber := number(want)
	switch {
	case name == "$count" && (!isNumber || n < 0 || n != float64(int(n))):
		return fmt.Errorf("it takes a number, not %s", Short(want))
	case name == "$regex" && !isText:
		return fmt.Errorf("it takes a regular expression, not %s", Short(want))
	case name == "$regex":
		_, err = regexp.Compile(text)
	case name == "$jq" && len(asked) == 0:
		return fmt.Errorf("it takes a map of jq expressions to their results, not %s", Short(want))
	case name == "$jq":
		for jq := range asked {
			_, wrong := hooks.CompileFilter(jq)
			err = cmp.Or(err, wrong)
		}
	}
	return err
}

// matchNot matches where the value, or the matcher, would differ.
func matchNot(place string, want, got any) []string {
	if len(Difference(place, want, got)) == 0 {
		return []string{fmt.Sprintf("%s must not be %s, is %s", cmp.Or(place, "it"), Short(want), Short(got))}
	}
	return nil
}

// matchContains looks for a text in a text, or for an element in a list. Several elements are a
// list.
func matchContains(place string, want, got any) []string {
	has := func(part any) bool {
		switch g := got.(type) {
		case string:
			text, ok := part.(string)
			return ok && strings.Contains(g, text)
		case []any:
			return slices.ContainsFunc(g, func(element any) bool { return len(Difference(place, part, element)) == 0 })
		}
		return false
	}
	parts, several := want.([]any)
	if !several {
		parts = []any{want}
	}
	for _, part := range parts {
		if !has(part) {
			return []string{fmt.Sprintf("%s must contain %s, is %s", cmp.Or(place, "it"), Short(part), Short(got))}
		}
	}
	return nil
}

// matchCount counts elements, keys, or letters; what is absent has none.
func matchCount(place string, want, got any) []string {
	count := 0
	switch g := got.(type) {
	case []any:
		count = len(g)
	case map[string]any:
		count = len(g)
	case string:
		count = utf8.RuneCountInString(g)
	case nil:
	default:
		return []string{fmt.Sprintf("%s cannot be counted: it is %s", place, Short(got))}
	}
	if !Same(want, int64(count)) {
		return []string{fmt.Sprintf("%s must count %s, counts %d: %s", cmp.Or(place, "it"), Short(want), count, Short(got))}
	}
	return nil
}

// matchJQ compares what each jq expression yields. The filters of hooks take objects only, so the value becomes a
// field of one.
func matchJQ(place string, want, got any) (list []string) {
	asked, _ := want.(map[string]any)
	for _, jq := range slices.Sorted(maps.Keys(asked)) {
		at := strings.TrimSpace(place + " | " + jq)
		var text []byte
		filter, err := hooks.CompileFilter(".value | " + jq)
		if err == nil {
			text, err = filter.Apply(map[string]any{"value": got})
		}
		result, wrong := values.ParseJSON(text)
		if err = cmp.Or(err, wrong); err != nil {
			list = append(list, fmt.Sprintf("%s: %v", at, err))
			continue
		}
		list = append(list, Difference(at, asked[jq], result)...)
	}
	return list
}

// matchText searches a text for the expression; another value is searched as JSON, so that
// {$regex: "^3"} fits the number 3.
func matchText(place string, want, got any) []string {
	pattern, _ := want.(string)
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return []string{fmt.Sprintf("%s: $regex: %v", place, err)}
	}
	text, ok := got.(string)
	if !ok {
		text = Short(got)
	}
	if got == nil || !expression.MatchString(text) {
		return []string{fmt.Sprintf("%s must match %s, is %s", cmp.Or(place, "it"), pattern, Short(got))}
	}
	return nil
}

func unlike(place string, want, got any) string {
	return fmt.Sprintf("%s must be %s, is %s", cmp.Or(place, "it"), Short(want), Short(got))
}

// Same compares scalars; 1 and 1.0 are the same number. Maps and lists never come here, which Go
// could not compare: Difference handles what is wanted as one, and a wanted scalar is of another
// type than a map or list that is there.
func Same(a, b any) bool {
	x, isNumber := number(a)
	y, too := number(b)
	if isNumber && too {
		return x == y
	}
	return a == b
}

// number is a number in any of the types that decoders make. Integers above 2⁵³ may equal their
// neighbours.
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

// Short is a value for a message: its JSON, cut after 300 bytes. null is said as authors mean it.
func Short(value any) string {
	if value == nil {
		return "absent"
	}
	data, err := values.JSON(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return values.Shorten(string(data), 300)
}

// WithTexts returns an object whose Secret data can be compared as stringData, too, so that authors
// write no base64.
func WithTexts(object map[string]any) map[string]any {
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

// Identity names an object: "v1 Secret default/a".
func Identity(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	name := fmt.Sprint(meta["name"])
	if namespace, _ := meta["namespace"].(string); namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%v %v %s", object["apiVersion"], object["kind"], name)
}
