package values

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// checker decides whether values are valid, without telling why not. Validation happens at every change, values are nearly always
// valid, and the compiler's own validation takes many times longer, because it prepares for explaining failures. The checker
// walks the same compiled schema; what it does not know it leaves to that validation.
type checker struct {
	formats map[string]func(any) bool
	unsure  bool // something could not be decided, the result does not count
}

// surelyFits tells that a value is valid; no means perhaps.
func (c checker) surelyFits(s *jsonschema.Schema, value any) bool {
	return c.fits(s, value, nil) && !c.unsure
}

// keys are the keys of one map that some schema has looked at, for unevaluatedProperties. A nil set collects nothing.
type keys map[string]struct{}

func (k keys) add(key string) {
	if k != nil {
		k[key] = struct{}{}
	}
}

// fits tells whether a value is valid. seen collects the evaluated keys when the value is a map.
func (c *checker) fits(s *jsonschema.Schema, value any, seen keys) bool {
	if s.Always != nil {
		return *s.Always
	}
	if unusual(s) {
		c.unsure = c.unsure || seen != nil // the other validation does not tell which keys it evaluated
		return s.Validate(value) == nil
	}
	if s.UnevaluatedProperties != nil && seen == nil {
		seen = keys{}
	}
	return fitsType(s.Types, value) && fitsEnum(s, value) && c.fitsFormat(s, value) &&
		c.fitsContent(s, value, seen) && c.fitsBranches(s, value, seen) && c.fitsUnevaluated(s, value, seen)
}

// unusual schemas are left to the compiler's validation.
func unusual(s *jsonschema.Schema) bool {
	if _, single := s.Items.(*jsonschema.Schema); s.Items != nil && !single {
		return true
	}
	return s.Contains != nil || s.UnevaluatedItems != nil || s.UniqueItems || s.PropertyNames != nil || s.RecursiveRef != nil || s.DynamicRef != nil ||
		s.Dependencies != nil || s.DependentRequired != nil || s.DependentSchemas != nil || s.PrefixItems != nil || s.Items2020 != nil ||
		s.Extensions != nil || s.RegexProperties || s.ContentEncoding != "" || s.ContentMediaType != ""
}

// fitsType knows that 1.0 is an integer, as JSON Schema has it.
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
		return slices.Contains(types, "number") || (isIntegral(v) && slices.Contains(types, "integer"))
	case []any:
		return slices.Contains(types, "array")
	case map[string]any:
		return slices.Contains(types, "object")
	}
	return false
}

func fitsEnum(s *jsonschema.Schema, value any) bool {
	return (len(s.Enum) == 0 || oneOf(s.Enum, value)) && (len(s.Constant) == 0 || oneOf(s.Constant, value))
}

// oneOf compares by canonical texts, unless that is not needed: in a schema numbers are json.Numbers, in a tree they are not.
func oneOf(list []any, value any) bool {
	switch value.(type) {
	case string, bool, nil:
		return slices.ContainsFunc(list, func(item any) bool {
			switch item.(type) {
			case string, bool, nil:
				return item == value
			}
			return false
		})
	}
	return slices.ContainsFunc(list, func(item any) bool { return equal(item, value) })
}

func (c *checker) fitsFormat(s *jsonschema.Schema, value any) bool {
	if s.Format == "" {
		return true
	}
	check := c.formats[s.Format]
	if check == nil {
		check = jsonschema.Formats[s.Format]
	}
	return check == nil || check(value)
}

// fitsContent checks the keywords of the value's own type.
func (c *checker) fitsContent(s *jsonschema.Schema, value any, seen keys) bool {
	switch v := value.(type) {
	case map[string]any:
		return c.fitsMap(s, v, seen)
	case []any:
		return c.fitsList(s, v)
	case string:
		return fitsText(s, v)
	case int64, float64, json.Number:
		return fitsNumber(s, v)
	}
	return true
}

// within checks a length; limits below zero are not set.
func within(n, low, high int) bool { return (low < 0 || n >= low) && (high < 0 || n <= high) }

func fitsText(s *jsonschema.Schema, text string) bool {
	if (s.MinLength >= 0 || s.MaxLength >= 0) && !within(utf8.RuneCountInString(text), s.MinLength, s.MaxLength) {
		return false
	}
	return s.Pattern == nil || s.Pattern.MatchString(text)
}

func fitsNumber(s *jsonschema.Schema, value any) bool {
	return (s.Minimum == nil || compare(value, s.Minimum) >= 0) && (s.ExclusiveMinimum == nil || compare(value, s.ExclusiveMinimum) > 0) &&
		(s.Maximum == nil || compare(value, s.Maximum) <= 0) && (s.ExclusiveMaximum == nil || compare(value, s.ExclusiveMaximum) < 0) &&
		(s.MultipleOf == nil || new(big.Rat).Quo(rational(value), s.MultipleOf).IsInt())
}

// rational reads a number the way it is written: 0.1 is a tenth.
func rational(value any) *big.Rat {
	number, ok := new(big.Rat).SetString(fmt.Sprint(value))
	if !ok {
		return new(big.Rat)
	}
	return number
}

// compare a number with a limit, exactly. Most are small integers.
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

func (c *checker) fitsMap(s *jsonschema.Schema, m map[string]any, seen keys) bool {
	if !within(len(m), s.MinProperties, s.MaxProperties) {
		return false
	}
	for _, key := range s.Required {
		if _, ok := m[key]; !ok {
			return false
		}
	}
	if s.Properties == nil && s.PatternProperties == nil && s.AdditionalProperties == nil {
		return true
	}
	for key, value := range m {
		if !c.fitsKey(s, key, value, seen) {
			return false
		}
	}
	return true
}

// fitsKey checks the value of one key with all schemas that name it, or with additionalProperties when none does.
func (c *checker) fitsKey(s *jsonschema.Schema, key string, value any, seen keys) bool {
	property, named := s.Properties[key]
	if named && !c.fits(property, value, nil) {
		return false
	}
	for pattern, schema := range s.PatternProperties {
		if !pattern.MatchString(key) {
			continue
		}
		named = true
		if !c.fits(schema, value, nil) {
			return false
		}
	}
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

func (c *checker) fitsList(s *jsonschema.Schema, list []any) bool {
	if !within(len(list), s.MinItems, s.MaxItems) {
		return false
	}
	if items, ok := s.Items.(*jsonschema.Schema); ok {
		for _, element := range list {
			if !c.fits(items, element, nil) {
				return false
			}
		}
	}
	return true
}

// fitsBranches checks what allOf, $ref and the others say about the same value.
func (c *checker) fitsBranches(s *jsonschema.Schema, value any, seen keys) bool {
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

// count tells how many branches fit. The keys that they evaluate count only then.
func (c *checker) count(branches []*jsonschema.Schema, value any, seen keys) int {
	fitting := 0
	for _, branch := range branches {
		if c.attempt(branch, value, seen) {
			fitting++
		}
	}
	return fitting
}

// attempt checks a branch that need not fit.
func (c *checker) attempt(branch *jsonschema.Schema, value any, seen keys) bool {
	var own keys
	if seen != nil {
		own = keys{}
	}
	if !c.fits(branch, value, own) {
		return false
	}
	for key := range own {
		seen.add(key)
	}
	return true
}

func (c *checker) fitsUnevaluated(s *jsonschema.Schema, value any, seen keys) bool {
	m, ok := value.(map[string]any)
	if !ok || s.UnevaluatedProperties == nil {
		return true
	}
	for key, child := range m {
		if _, evaluated := seen[key]; !evaluated && !c.fits(s.UnevaluatedProperties, child, nil) {
			return false
		}
		seen.add(key)
	}
	return true
}
