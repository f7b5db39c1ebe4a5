package values

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// pointer is a parsed JSON pointer, without escapes. nil is the root.
type pointer []string

// parsePointer reads a path of a patch, like "/a/b~1c/0". Empty keys, which JSON allows, are
// refused as misprints. Callers put the path before the error.
func parsePointer(text string) (pointer, error) {
	if text == "" {
		return nil, errors.New("is empty; it must begin with / and the key of the section")
	}
	if strings.Contains(text+"/", "//") {
		return nil, errors.New("has an empty element")
	}
	return splitPointer(text)
}

// splitPointer parses any JSON pointer, also one with empty keys, as schemas may have.
func splitPointer(text string) (pointer, error) {
	if text == "" {
		return nil, nil
	}
	elements := strings.Split(strings.TrimPrefix(text, "/"), "/")
	for i, element := range elements {
		if strings.Count(element, "~") != strings.Count(element, "~0")+strings.Count(element, "~1") {
			return nil, fmt.Errorf("has %q: write ~ as ~0 and / as ~1", element)
		}
		elements[i] = strings.ReplaceAll(strings.ReplaceAll(element, "~1", "/"), "~0", "~") // so ~01 stays ~1
	}
	return elements, nil
}

// mustPointer reads the path of an operation, which was checked when it was parsed.
func mustPointer(text string) pointer {
	p, _ := parsePointer(text)
	return p
}

// String writes the pointer in its canonical form: equal pointers have equal texts.
func (p pointer) String() string { return JSONPointer(p...) }

// JSONPointer writes keys and indices as the path of a patch.
func JSONPointer(path ...string) string {
	var out strings.Builder
	for _, element := range path {
		out.WriteString("/" + strings.ReplaceAll(strings.ReplaceAll(element, "~", "~0"), "/", "~1"))
	}
	return out.String()
}

// contains reports whether q is p or below it.
func (p pointer) contains(q pointer) bool {
	return len(q) >= len(p) && slices.Equal(p, q[:len(p)])
}

// appends is the element that means the place after the last one of a list.
const appends = "-"

// listIndex reads an index as RFC 6901 writes it: no sign, no leading zero. Nine digits are more
// than any list has, and fit into an int everywhere.
func listIndex(element string) (int, bool) {
	if len(element) > 9 || !allDigits(element) || (element[0] == '0' && len(element) > 1) {
		return 0, false
	}
	index, err := strconv.Atoi(element)
	return index, err == nil
}

// aboveLists returns the longest beginning of a path that certainly goes through maps only. What the rest means
// depends on the operations before it (D23). The text of a path does not distinguish lists from maps with numbers as
// keys; the answer is the shorter one, which is the safe one. Escapes do not matter: neither indexes nor "-" have
// any.
func aboveLists(path string) string {
	for start := 0; start < len(path); {
		element, _, _ := strings.Cut(path[start+1:], "/")
		if _, isIndex := listIndex(element); isIndex || element == appends {
			return path[:start]
		}
		start += 1 + len(element)
	}
	return path
}

// lookup returns the value at a path, and whether there is one: the value may be null. "-" leads
// nowhere.
func lookup(tree any, path pointer) (any, bool) {
	for _, element := range path {
		switch container := tree.(type) {
		case map[string]any:
			child, ok := container[element]
			if !ok {
				return nil, false
			}
			tree = child
		case []any:
			index, ok := listIndex(element)
			if !ok || index >= len(container) {
				return nil, false
			}
			tree = container[index]
		default:
			return nil, false
		}
	}
	return tree, true
}

// Dotted writes a path as users write it: someModule.a.b[2]["odd key"]. The tree distinguishes
// lists from maps; where it does not have the path, elements are keys.
func Dotted(tree any, path []string) string {
	var out strings.Builder
	for i, element := range path {
		_, inList := tree.([]any)
		tree, _ = lookup(tree, pointer{element})
		switch {
		case inList:
			out.WriteString("[" + element + "]")
		case !isWord(element):
			out.WriteString("[" + strconv.Quote(element) + "]")
		case i > 0:
			out.WriteString("." + element)
		default:
			out.WriteString(element)
		}
	}
	return out.String()
}

// isWord reports whether a key can follow a dot without quotes.
func isWord(key string) bool {
	return key != "" && strings.IndexFunc(key, func(r rune) bool {
		return !(r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) < 0
}

// ParsePath reads a path of a user: dotted, a.b[2]["odd key"], as explanations and violations print
// it, or a JSON pointer, /a/b/2. Quotes and escapes are those of Go.
func ParsePath(text string) ([]string, error) {
	if strings.HasPrefix(text, "/") {
		path, err := splitPointer(text)
		if err != nil {
			return nil, fmt.Errorf("path %q %w", text, err)
		}
		return path, nil
	}
	var path []string
	element := regexp.MustCompile(`^(?:\.?([^.\[]+)|\[("(?:[^"\\]|\\.)*")\]|\[([^\]"'\[]+)\])`)
	for rest := text; rest != ""; {
		found := element.FindStringSubmatch(rest)
		if found == nil || rest[0] == '.' && len(path) == 0 || found[1] != "" && rest[0] != '.' && len(path) > 0 {
			return nil, fmt.Errorf(`path %q: write a.b for a key, [2] for an index, and ["odd.key"] for a key with special characters`, text)
		}
		key := cmp.Or(found[1], found[3])
		if found[2] != "" {
			var err error
			if key, err = strconv.Unquote(found[2]); err != nil {
				return nil, fmt.Errorf("path %q: %s is not quoted as in Go", text, found[2])
			}
		}
		path, rest = append(path, key), rest[len(found[0]):]
	}
	return path, nil
}
