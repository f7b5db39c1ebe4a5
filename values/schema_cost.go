package values

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
)

const (
	// perSchema is the approximate size of a compiled schema in memory, in bytes.
	perSchema = 1 << 10
	// maxPatterns bounds the patterns of one schema, in instructions of their programs, each of
	// which takes 40 bytes.
	maxPatterns = 500_000
	// maxWrong is the number of wrong keywords that the compiler may explain. It keeps all mistakes
	// of a schema in a tree, for which a file of nothing else would take hundreds of megabytes.
	maxWrong = 1000
)

var errTooManyPatterns = errors.New("the patterns of the schema are too large, counting each repetition; use fewer repetitions")

// patternCost returns about how many instructions the program of a pattern has. Only repetitions
// turn a few characters into many instructions, so only patterns with one are parsed.
func patternCost(pattern string) int {
	cost := 2 + 2*len(pattern)
	if cost > maxPatterns || !strings.Contains(pattern, "{") {
		return cost
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return cost // the compiler reports it
	}
	return instructions(parsed)
}

// instructions counts those of a parsed pattern without writing its repetitions out. Nested
// repetitions multiply; the parser limits them to 1000 in total.
func instructions(re *syntax.Regexp) int {
	cost := 2 + len(re.Rune)
	for _, sub := range re.Sub {
		cost += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		cost *= max(re.Min, re.Max, 1)
	}
	return cost
}

// pattern counts a pattern before anything compiles it.
func (t *translator) pattern(text string) {
	cost, known := t.costs[text]
	if !known {
		cost = patternCost(text)
		t.costs[text] = cost
	}
	if t.patterns -= cost; t.patterns < 0 {
		t.fail(errTooManyPatterns)
	}
}

// keyword checks the value of a keyword that goes to the compiler as it is.
func (t *translator) keyword(p place, keyword string, value any) {
	if text, ok := value.(string); ok && keyword == "pattern" {
		t.pattern(text)
	}
	if !surelyWrong(keyword, value) {
		return
	}
	if t.wrong++; t.wrong > maxWrong {
		t.refuse(p.below(keyword), "has a value that the keyword does not allow, as do more than %d others", maxWrong)
		t.stopped = true
	}
}

// surelyWrong reports that the compiler will refuse the value of a keyword. It need not find all
// mistakes: the limit only has to stop floods of them.
func surelyWrong(keyword string, value any) bool {
	switch keyword {
	case "const":
		return false
	case "type":
		return !isTypeName(value) && !allOf(value, isTypeName)
	case "enum":
		return !allOf(value, func(any) bool { return true })
	case "required":
		return !allOf(value, func(name any) bool { _, ok := name.(string); return ok })
	case "dependentRequired":
		_, ok := value.(map[string]any)
		return !ok
	case "format", "pattern":
		_, ok := value.(string)
		return !ok
	case "uniqueItems":
		_, ok := value.(bool)
		return !ok
	case "minimum", "maximum":
		return !isNumber(value)
	case "multipleOf":
		return !isNumber(value) || strings.HasPrefix(fmt.Sprint(value), "-")
	}
	n, ok := value.(int64) // lengths
	_, large := value.(json.Number)
	return !large && (!ok || n < 0)
}

func allOf(list any, fits func(any) bool) bool {
	items, ok := list.([]any)
	return ok && !slices.ContainsFunc(items, func(item any) bool { return !fits(item) })
}

func isTypeName(value any) bool {
	switch value {
	case "null", "boolean", "object", "array", "number", "string", "integer":
		return true
	}
	return false
}

func isNumber(value any) bool {
	switch value.(type) {
	case int64, float64, json.Number:
		return true
	}
	return false
}
