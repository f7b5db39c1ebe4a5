package values

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Everything that comes from outside is bounded where it is read (D39). A ConfigMap has at
// most 1 MiB, but its aliases can describe more than there is memory, and each level of nesting
// makes all lines below it longer when they are written.
const (
	// maxSize bounds the text of a document, and the keys and texts in it with all aliases written out, in bytes.
	maxSize = 1 << 20
	// maxNodes bounds the keys and values of a document, counted in the same way.
	maxNodes = 50_000
	// maxDigits bounds integers.
	maxDigits = 100
	// maxDepth bounds how deep lists and maps are nested: functions of this package recurse along
	// them, and so do templates.
	maxDepth = 100
	// maxOperations bounds a patch: each can move all elements of a list.
	maxOperations = 20_000
	// maxProblems bounds what is reported about one text: it may hold nothing but mistakes.
	maxProblems = 100
	// maxWord bounds how much of a text is repeated in a message.
	maxWord = 100
	// maxMessage bounds what is reported about one value, in bytes: a schema may have any number of
	// alternatives.
	maxMessage = 2 << 10
)

var (
	errTooLarge      = fmt.Errorf("the values have more than %d MiB, or more than %d keys and values, with all aliases written out; remove values or aliases", maxSize>>20, maxNodes)
	errTooDeep       = fmt.Errorf("lists and maps are nested more than %d deep; nest them less", maxDepth)
	errTooFilled     = fmt.Errorf("the defaults of the schema would add more than %d MiB, or more than %d keys and values, or never end; make lists shorter, or give fewer defaults for their elements", maxSize>>20, maxNodes)
	errTooManyDigits = fmt.Errorf("an integer has more than %d digits; write it as a string", maxDigits)
)

// joined joins problems with one text, at most maxProblems.
func joined(problems []error) error {
	if len(problems) > maxProblems {
		tooMany := fmt.Errorf("there are more than %d problems; fix these first", maxProblems)
		problems = append(problems[:maxProblems], tooMany)
	}
	return errors.Join(problems...)
}

// CheckSize refuses a text of so many bytes if it is larger than values and schemas may be. Callers
// use it before they read a file.
func CheckSize(bytes int64) error {
	if bytes > maxSize {
		return fmt.Errorf("the text has %d bytes, more than %d MiB; make it smaller", bytes, maxSize>>20)
	}
	return nil
}

// bounded refuses a tree that is too large or too deep.
func bounded(tree any) error {
	switch size, nodes, depth := measure(tree); {
	case size > maxSize || nodes > maxNodes:
		return errTooLarge
	case depth > maxDepth:
		return errTooDeep
	}
	return nil
}

// measure returns the size of the keys and texts of a tree, how many keys and values it has, and its depth. A subtree
// that several places share counts at each of them, as it will be written. It ends when a limit is exceeded.
func measure(tree any) (size, nodes, depth int) {
	nodes = 1
	below := func(child any) {
		if size <= maxSize && nodes <= maxNodes {
			s, n, d := measure(child)
			size, nodes, depth = size+s, nodes+n, max(depth, d)
		}
	}
	switch v := tree.(type) {
	case string:
		size = len(v)
	case json.Number:
		size = len(v)
	case []any:
		for _, child := range v {
			below(child)
		}
		depth++
	case map[string]any:
		for key, child := range v {
			size += len(key)
			below(child)
			nodes++
		}
		depth++
	}
	return size, nodes, depth
}

// brief shortens a text for a message.
func brief(text string) string { return Shorten(text, maxWord) }

// Shorten cuts a text after a number of bytes, not in the middle of a character.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
