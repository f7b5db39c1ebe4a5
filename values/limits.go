package values

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Everything that comes from outside is bounded before it is expanded (D39). A ConfigMap has at
// most 1 MiB, but its aliases can describe more than there is memory, and each level of nesting
// makes all lines below it longer when they are written.
const (
	// maxSize bounds a document, and a section after a patch, in bytes as measure counts them.
	maxSize = 4 << 20
	// maxFilled bounds what defaults add to a section, in bytes.
	maxFilled = 16 << 20
	// maxDigits bounds integers. A float64 has 309 digits at most, and arithmetic with a million of
	// them takes seconds.
	maxDigits = 100
	// maxDepth bounds how deep lists and maps are nested: functions of this package recurse along
	// them, and so do templates.
	maxDepth = 100
	// maxOperations bounds a patch: each can move all elements of a list, or look at all operations
	// before it.
	maxOperations = 20_000
	// maxProblems bounds what is reported about one text: it may hold nothing but mistakes.
	maxProblems = 100
	// maxWord bounds how much of a text is repeated in a message.
	maxWord = 100
	// maxMessage bounds what is reported about one value, in bytes: a schema may have any number of
	// alternatives.
	maxMessage = 8 << 10
	// maxExplanation bounds all that is reported about one section, in bytes.
	maxExplanation = 256 << 10
	// maxElement bounds how much of a key a path repeats, in bytes.
	maxElement = 256
)

// overhead is what each value and key counts in addition to its text, in bytes. It is about what
// they take in memory. Without it, a hundred thousand short values would be small, but to report
// that none of them fits its schema would take hundreds of megabytes.
const overhead = 32

var (
	errTooLarge      = fmt.Errorf("the values are larger than %d MiB, with all aliases written out and %d bytes for each value and key; remove values or aliases", maxSize>>20, overhead)
	errTooDeep       = fmt.Errorf("lists and maps are nested more than %d deep; nest them less", maxDepth)
	errTooFilled     = fmt.Errorf("the defaults of the schema would add more than %d MiB, with %d bytes for each value and key; make lists shorter, or give fewer defaults for their elements", maxFilled>>20, overhead)
	errTooManyDigits = fmt.Errorf("an integer has more than %d digits; write it as a string", maxDigits)
	errTooMuchWork   = errors.New("cannot be checked: that takes too much work; make the values smaller, or their schema simpler")
	errTooMany       = fmt.Errorf("there are more than %d problems; fix these first", maxProblems)
)

// checkText refuses a text that cannot be within the limits, before it is parsed.
func checkText(text []byte) error { return CheckSize(int64(len(text))) }

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
	switch size, depth := measureUpTo(tree, maxSize); {
	case size > maxSize:
		return errTooLarge
	case depth > maxDepth:
		return errTooDeep
	}
	return nil
}

// measure returns the size of a tree, which is that of its texts plus an overhead for each value
// and key, and its depth. A subtree that several places share counts at each of them, as it will be
// written.
func measure(tree any) (size, depth int) { return measureUpTo(tree, math.MaxInt) }

// measureUpTo is measure that ends when the size is above a limit.
func measureUpTo(tree any, limit int) (size, depth int) {
	size = overhead
	below := func(child any) {
		if size <= limit {
			s, d := measureUpTo(child, limit-size)
			size, depth = size+s, max(depth, d)
		}
	}
	switch v := tree.(type) {
	case string:
		size += len(v)
	case json.Number:
		size += len(v)
	case []any:
		for _, child := range v {
			below(child)
		}
		depth++
	case map[string]any:
		for key, child := range v {
			size += overhead + len(key)
			below(child)
		}
		depth++
	}
	return size, depth
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

// extent returns by how much the operations can make a section grow at most, which is about the
// size of their values. It returns errTooDeep for a value that would be nested too deep at its
// path.
func (p Patch) extent() (size int, err error) {
	for _, operation := range p {
		valueSize, depth := measure(operation.Value)
		size += overhead + len(operation.Path) + valueSize
		if strings.Count(operation.Path, "/")-1+depth > maxDepth {
			return size, errTooDeep
		}
	}
	return size, nil
}
