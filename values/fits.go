package values

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// checker decides whether values are valid, without explaining why not. It walks the schema that
// the library has compiled, and handles every keyword that translate writes.
//
// The library's own validation is not used for this. Values are validated at every change and are
// nearly always valid, but the library prepares an explanation of every failure of every branch for
// every value: a valid megabyte takes it twelve times as long and 48 MB of memory, where the
// checker allocates nothing (BenchmarkValidator1MB). Nor does it bound its work: a flood of wrong
// values takes more memory than there is. docs/decisions/2026-11-22-bounded-validation.md lists the
// alternatives.
//
// Work is counted in steps: one for each schema that is applied to a value, and more where a
// keyword costs more than that. When the steps are used up, fits and matches return false, so the
// caller must look at exhausted before it trusts an answer.
//
// A copy (begin) serves one check in one goroutine; the original is shared and never changed.
type checker struct {
	formats map[string]func(any) bool
	costs   map[string]int // of patterns, as patternCost has them

	limit int // of steps
	steps int // that may still be made
	depth int // schemas that are asked within each other
}

const (
	// maxSteps bounds the time of a check: some seconds. Values of 4 MiB with a dozen alternatives
	// for each need a tenth of it.
	maxSteps = 50_000_000
	// maxNested bounds the stack: 100 levels of values, with a chain of references at each.
	maxNested = 20_000
)

// begin returns a checker for one check.
func (c checker) begin() *checker {
	c.steps = c.limit
	return &c
}

// spend counts work that does not consist of asking schemas.
func (c *checker) spend(steps int) { c.steps -= steps }

// exhausted reports that the limit of work was reached. No answer is valid then.
func (c *checker) exhausted() bool { return c.steps <= 0 }

// evaluated are the parts of one value that some schema has evaluated, for unevaluatedProperties
// and unevaluatedItems. Only schemas with these keywords need it: a nil *evaluated collects nothing
// and costs nothing.
type evaluated struct {
	keys  map[string]struct{}
	items int // the first of a list; no keyword evaluates others only
}

// nothingEvaluated allocates the map at once and never replaces it, so that the compiler can keep a
// small one on the stack.
func nothingEvaluated() *evaluated { return &evaluated{keys: map[string]struct{}{}} }

func (e *evaluated) add(key string) {
	if e != nil {
		e.keys[key] = struct{}{}
	}
}

func (e *evaluated) addItems(first int) {
	if e != nil {
		e.items = max(e.items, first)
	}
}

func (e *evaluated) has(key string) bool {
	_, ok := e.keys[key]
	return ok
}

// fits reports whether a value is valid. seen collects what was evaluated; if the answer is no, its
// content has no meaning.
func (c *checker) fits(s *jsonschema.Schema, value any, seen *evaluated) bool {
	c.steps--
	if c.exhausted() {
		return false
	}
	if s.Always != nil {
		return *s.Always
	}
	// Too deep counts as too much work: the stack of a goroutine that overflows ends the process.
	if c.depth == maxNested {
		c.steps = 0
		return false
	}
	own := seen
	if s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil {
		own = nothingEvaluated() // what sibling schemas evaluate does not count for it
	}
	c.depth++
	// Cheap keywords come first, and unevaluated ones last: they need what the others have
	// evaluated.
	fits := fitsType(s.Types, value) && c.fitsEnum(s, value) && c.fitsFormat(s, value) &&
		c.fitsContent(s, value, own) && c.fitsBranches(s, value, own) && c.fitsUnevaluated(s, value, own)
	c.depth--
	if fits && own != seen {
		c.evaluate(seen, own)
	}
	return fits
}

// evaluate adds what one schema evaluated to what others did on the same value.
func (c *checker) evaluate(seen, own *evaluated) {
	if seen == nil {
		return
	}
	c.spend(len(own.keys))
	for key := range own.keys {
		seen.add(key)
	}
	seen.addItems(own.items)
}

// fitsType checks the type. A float64 without a fraction is an integer, as JSON Schema has it; the
// trees of this package have such floats only above 2^53.
func fitsType(types []string, value any) bool {
	if len(types) == 0 {
		return true
	}
	switch v := value.(type) {
	case nil:
		return slices.Contains(types, "null")
	case bool:
		return slices.Contains(types, "boolean")
	case string:
		return slices.Contains(types, "string")
	case int64, json.Number:
		return slices.Contains(types, "integer") || slices.Contains(types, "number")
	case float64:
		return slices.Contains(types, "number") || (v == math.Trunc(v) && slices.Contains(types, "integer"))
	case []any:
		return slices.Contains(types, "array")
	case map[string]any:
		return slices.Contains(types, "object")
	}
	return false
}

// fitsEnum checks enum and const.
func (c *checker) fitsEnum(s *jsonschema.Schema, value any) bool {
	return (len(s.Enum) == 0 || c.oneOf(s.Enum, value)) && (len(s.Constant) == 0 || c.oneOf(s.Constant, value))
}

// oneOf reports whether a value is in a list. A comparison that fails at the type costs about a
// quarter of a step.
func (c *checker) oneOf(list []any, value any) bool {
	c.spend(len(list) / 4)
	return slices.ContainsFunc(list, func(item any) bool { return c.same(item, value) })
}

// bytesPerStep is how much of a text is looked at in the time of a step, at least.
const bytesPerStep = 32

// fitsFormat checks a format. Those of formats() take precedence over those of the library; unknown
// ones accept everything.
func (c *checker) fitsFormat(s *jsonschema.Schema, value any) bool {
	if s.Format == "" {
		return true
	}
	check := c.formats[s.Format]
	if check == nil {
		check = jsonschema.Formats[s.Format]
	}
	if text, ok := value.(string); ok {
		c.spend(len(text) / bytesPerStep)
	}
	return check == nil || check(value)
}

// matches applies a pattern. The time of a match grows with the length of the text times the size
// of the pattern's program.
func (c *checker) matches(pattern *regexp.Regexp, text string) bool {
	c.spend(1 + len(text)*c.costs[pattern.String()]/bytesPerStep)
	return !c.exhausted() && pattern.MatchString(text)
}

// fitsContent checks the keywords of the value's own type.
func (c *checker) fitsContent(s *jsonschema.Schema, value any, seen *evaluated) bool {
	switch v := value.(type) {
	case map[string]any:
		return c.fitsMap(s, v, seen)
	case []any:
		return c.fitsList(s, v, seen)
	case string:
		return c.fitsText(s, v)
	case int64, float64, json.Number:
		return fitsNumber(s, v)
	}
	return true
}

// within checks a length; limits below zero are not set.
func within(n, low, high int) bool { return (low < 0 || n >= low) && (high < 0 || n <= high) }

func (c *checker) fitsText(s *jsonschema.Schema, text string) bool {
	if (s.MinLength >= 0 || s.MaxLength >= 0) && !within(utf8.RuneCountInString(text), s.MinLength, s.MaxLength) {
		return false
	}
	return s.Pattern == nil || c.matches(s.Pattern, text)
}

func fitsNumber(s *jsonschema.Schema, value any) bool {
	return (s.Minimum == nil || compare(value, s.Minimum) >= 0) && (s.ExclusiveMinimum == nil || compare(value, s.ExclusiveMinimum) > 0) &&
		(s.Maximum == nil || compare(value, s.Maximum) <= 0) && (s.ExclusiveMaximum == nil || compare(value, s.ExclusiveMaximum) < 0) &&
		isMultiple(s, value)
}

// isMultiple divides exactly: as a float, 0.3 would not be a multiple of 0.1.
func isMultiple(s *jsonschema.Schema, value any) bool {
	return s.MultipleOf == nil || new(big.Rat).Quo(rational(value), s.MultipleOf).IsInt()
}

func isNumber(value any) bool {
	switch value.(type) {
	case int64, float64, json.Number:
		return true
	}
	return false
}

// rational returns a number as it is written: 0.1 is a tenth, not the float64 next to it.
func rational(value any) *big.Rat {
	number, ok := new(big.Rat).SetString(fmt.Sprint(value))
	if !ok {
		return new(big.Rat)
	}
	return number
}

// compare compares a number with a limit, exactly. Most are small integers, which need no
// allocation.
func compare(value any, limit *big.Rat) int {
	if n, ok := value.(int64); ok && limit.IsInt() && limit.Num().IsInt64() {
		switch l := limit.Num().Int64(); {
		case n < l:
			return -1
		case n > l:
			return 1
		}
		return 0
	}
	return rational(value).Cmp(limit)
}

func (c *checker) fitsMap(s *jsonschema.Schema, m map[string]any, seen *evaluated) bool {
	if !within(len(m), s.MinProperties, s.MaxProperties) {
		return false
	}
	for _, key := range s.Required {
		if _, ok := m[key]; !ok {
			return false
		}
	}
	if s.PropertyNames != nil {
		for key := range m {
			if !c.fits(s.PropertyNames, key, nil) {
				return false
			}
		}
	}
	if s.Properties != nil || s.PatternProperties != nil || s.AdditionalProperties != nil {
		for key, value := range m {
			if !c.fitsKey(s, key, value, seen) {
				return false
			}
		}
	}
	return c.fitsDependent(s, m, seen)
}

// fitsDependent checks what the presence of a key requires.
func (c *checker) fitsDependent(s *jsonschema.Schema, m map[string]any, seen *evaluated) bool {
	if s.DependentRequired == nil && s.DependentSchemas == nil {
		return true
	}
	c.spend(len(m))
	for key := range m {
		if slices.ContainsFunc(s.DependentRequired[key], func(name string) bool { _, ok := m[name]; return !ok }) {
			return false
		}
		if schema := s.DependentSchemas[key]; schema != nil && !c.fits(schema, m, seen) {
			return false
		}
	}
	return true
}

// fitsKey checks the value of one key with all schemas that name it, or with additionalProperties
// when none does.
func (c *checker) fitsKey(s *jsonschema.Schema, key string, value any, seen *evaluated) bool {
	property, named := s.Properties[key]
	if named && !c.fits(property, value, nil) {
		return false
	}
	for pattern, schema := range s.PatternProperties {
		if !c.matches(pattern, key) {
			continue
		}
		named = true
		if !c.fits(schema, value, nil) {
			return false
		}
	}
	// Only properties, patternProperties and additionalProperties evaluate a key; a key that no
	// schema mentions stays unevaluated.
	if named || s.AdditionalProperties != nil {
		seen.add(key)
	}
	if named {
		return true
	}
	switch additional := s.AdditionalProperties.(type) {
	case bool:
		return additional
	case *jsonschema.Schema:
		return c.fits(additional, value, nil)
	}
	return true
}

func (c *checker) fitsList(s *jsonschema.Schema, list []any, seen *evaluated) bool {
	if !within(len(list), s.MinItems, s.MaxItems) || s.UniqueItems && !c.unique(list) {
		return false
	}
	seen.addItems(positions(s, list))
	for i, element := range list {
		if items := itemSchema(s, i); items != nil && !c.fits(items, element, nil) {
			return false
		}
	}
	if additional, ok := s.AdditionalItems.(bool); ok && !additional && len(list) > positioned(s) {
		return false
	}
	return s.Contains == nil || within(c.containing(s, list), s.MinContains, s.MaxContains)
}

// itemSchema returns the schema for the element at a position; nil for none.
func itemSchema(s *jsonschema.Schema, position int) *jsonschema.Schema {
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		return items
	case []*jsonschema.Schema:
		if position < len(items) {
			return items[position]
		}
		additional, _ := s.AdditionalItems.(*jsonschema.Schema)
		return additional
	}
	return nil
}

// positioned is the number of positions that have a schema of their own. additionalItems means
// something only with such a list.
func positioned(s *jsonschema.Schema) int {
	items, _ := s.Items.([]*jsonschema.Schema)
	return len(items)
}

// positions returns how many elements of a list, from the first one on, a schema evaluates: all
// with one schema for all, or with additionalItems; else those that have a schema of their own.
func positions(s *jsonschema.Schema, list []any) int {
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		return len(list)
	case []*jsonschema.Schema:
		if additional, ok := s.AdditionalItems.(bool); s.AdditionalItems == nil || ok && !additional {
			return min(len(items), len(list))
		}
		return len(list)
	}
	return 0
}

// containing counts the elements that fit contains. It does not stop at the first one, because of
// maxContains.
func (c *checker) containing(s *jsonschema.Schema, list []any) int {
	found := 0
	for _, element := range list {
		if c.fits(s.Contains, element, nil) {
			found++
		}
	}
	return found
}

// fitsBranches checks the keywords that apply other schemas to the same value: $ref, allOf, anyOf,
// oneOf, not and if.
func (c *checker) fitsBranches(s *jsonschema.Schema, value any, seen *evaluated) bool {
	if s.Ref != nil && !c.fits(s.Ref, value, seen) {
		return false
	}
	for _, branch := range s.AllOf {
		if !c.fits(branch, value, seen) {
			return false
		}
	}
	if len(s.AnyOf) > 0 && c.count(s.AnyOf, value, seen) == 0 {
		return false
	}
	if len(s.OneOf) > 0 && c.count(s.OneOf, value, seen) != 1 {
		return false
	}
	if s.Not != nil && c.attempt(s.Not, value, nil) {
		return false
	}
	if s.If == nil {
		return true
	}
	consequence := s.Else
	if c.attempt(s.If, value, seen) {
		consequence = s.Then
	}
	return consequence == nil || c.fits(consequence, value, seen)
}

// count returns how many branches fit. It tries all of them even when one is enough: the keys that
// each of them evaluates count.
func (c *checker) count(branches []*jsonschema.Schema, value any, seen *evaluated) int {
	fitting := 0
	for _, branch := range branches {
		if c.attempt(branch, value, seen) {
			fitting++
		}
	}
	return fitting
}

// attempt checks a branch that need not fit. What it evaluates is added to seen only when it fits.
func (c *checker) attempt(branch *jsonschema.Schema, value any, seen *evaluated) bool {
	if seen == nil {
		return c.fits(branch, value, nil)
	}
	own := nothingEvaluated()
	if !c.fits(branch, value, own) {
		return false
	}
	c.evaluate(seen, own)
	return true
}

// fitsUnevaluated checks what remains after all other keywords. seen is never nil when the schema
// has one of the two keywords (see fits).
func (c *checker) fitsUnevaluated(s *jsonschema.Schema, value any, seen *evaluated) bool {
	switch v := value.(type) {
	case map[string]any:
		if s.UnevaluatedProperties == nil || len(seen.keys) == len(v) { // all are evaluated, as nearly always
			return true
		}
		for key, child := range v {
			if !seen.has(key) && !c.fits(s.UnevaluatedProperties, child, nil) {
				return false
			}
			seen.add(key)
		}
	case []any:
		if s.UnevaluatedItems == nil {
			return true
		}
		for _, child := range v[seen.items:] {
			if !c.fits(s.UnevaluatedItems, child, nil) {
				return false
			}
		}
		seen.addItems(len(v))
	}
	return true
}
