package values

import (
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// maxWork bounds how much the library does with one section. It has no limit of its own, and keeps each failure of
// each alternative in memory. With this limit the worst pair of schema and values takes about a second; those of real
// modules need some thousands.
const maxWork = 500_000

// work estimates what a validation costs before it begins: how many schemas are applied to values. It decides
// nothing: an alternative that would end early counts as a whole.
type work struct {
	left    int
	weights map[any]int // of schemas and patterns, see weight and match
}

// affordable reports whether a validation is within maxWork.
func (s *schema) affordable(value any) bool {
	w := &work{maxWork, map[any]int{}}
	w.apply(s.compiled, value, 0, 0)
	return w.left > 0
}

// apply counts one schema that is applied to a value. level is how many schemas are applied around it, and way the
// length of the keys that lead to the value: a failure is kept with both.
func (w *work) apply(s *jsonschema.Schema, value any, level, way int) {
	if s == nil || w.left <= 0 {
		return
	}
	w.left -= 1 + level/8 + way/64 + w.weight(s)
	below := func(value any, way int, schemas ...*jsonschema.Schema) {
		for _, one := range schemas {
			w.apply(one, value, level+1, way)
		}
	}
	switch v := value.(type) {
	case string:
		w.match(s.Pattern, v)
	case map[string]any:
		for key, child := range v {
			for pattern := range s.PatternProperties {
				w.match(pattern, key)
			}
			if w.left <= 0 {
				return
			}
			below(key, way, s.PropertyNames)
			below(child, way+len(key), append(schemasForKey(s, key), s.UnevaluatedProperties)...)
		}
	case []any:
		for _, child := range v {
			items, _ := s.Items.(*jsonschema.Schema)
			below(child, way, items, s.Contains, s.UnevaluatedItems)
		}
	}
	below(value, way, s.Ref, s.Not, s.If, s.Then, s.Else)
	below(value, way, s.AllOf...)
	below(value, way, s.AnyOf...)
	below(value, way, s.OneOf...)
}

// weight is how many names and values a schema has itself: keys, and what is in enum and const, at all depths.
func (w *work) weight(s *jsonschema.Schema) int {
	weight, known := w.weights[s]
	if !known {
		_, weight, _ = measure(append(append([]any{}, s.Enum...), s.Constant...))
		weight += len(s.Required) + (len(s.Properties)+len(s.DependentRequired)+len(s.DependentSchemas))/4
		w.weights[s] = weight
	}
	return weight - 1
}

// match counts a pattern: the time of a match grows with the length of the text times the size of the pattern's program.
func (w *work) match(pattern *regexp.Regexp, text string) {
	if pattern == nil || w.left <= 0 {
		return
	}
	size, known := w.weights[pattern]
	if !known {
		parsed, _ := syntax.Parse(pattern.String(), syntax.Perl) // it was compiled
		program, _ := syntax.Compile(parsed.Simplify())
		size = len(program.Inst)
		w.weights[pattern] = size
	}
	w.left -= 1 + len(text)*size/256
}
