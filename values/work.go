package values

import (
	"regexp"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// maxWork bounds how much the library does with one section, in schemas that it applies to a value. It has no limit of its own,
// and neither has the memory in which it keeps each failure of each alternative. With it, the worst pair of schema and values
// takes about a second; those of real modules need some thousands.
const maxWork = 500_000

// work estimates what a validation costs before it begins. It goes the way of the library, and decides nothing: an alternative
// that would end early counts as a whole.
type work struct {
	left  int
	depth int            // of schemas that are applied within each other
	way   int            // length of the place in the values, which the library writes out for each value
	costs map[string]int // of patterns, as patternCost has them
	enums map[*jsonschema.Schema]int
}

// affordable reports whether a validation is within maxWork.
func (s *schema) affordable(compiled *jsonschema.Schema, value any) bool {
	w := &work{left: maxWork, costs: s.costs, enums: map[*jsonschema.Schema]int{}}
	w.apply(compiled, value)
	return w.left > 0
}

// below is apply for a part of a value.
func (w *work) below(s *jsonschema.Schema, key string, value any) {
	w.way += len(key)
	w.apply(s, value)
	w.way -= len(key)
}

// apply counts one schema that is applied to a value. A failure is kept with the ways to it, so deep ones cost more.
func (w *work) apply(s *jsonschema.Schema, value any) {
	if w.left -= 1 + w.depth/8 + w.way/64; s == nil || w.left <= 0 {
		return
	}
	w.depth++
	defer func() { w.depth-- }()
	for _, same := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
		if same != nil {
			w.apply(same, value)
		}
	}
	for _, branches := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for _, branch := range branches {
			w.apply(branch, value)
		}
	}
	w.left -= w.enum(s)
	switch v := value.(type) {
	case map[string]any:
		w.mapping(s, v)
	case []any:
		w.list(s, v)
	case string:
		if s.Format != "" {
			w.left -= len(v) / 16
		}
		w.match(s.Pattern, v)
	}
}

// enum is how many values there are in enum and const, at all depths: each may be compared.
func (w *work) enum(s *jsonschema.Schema) int {
	if len(s.Enum)+len(s.Constant) == 0 {
		return 0
	}
	n, known := w.enums[s]
	if !known {
		size, _ := measure(append(slices.Clip(s.Enum), s.Constant...))
		n = size / overhead
		w.enums[s] = n
	}
	return n
}

func (w *work) mapping(s *jsonschema.Schema, m map[string]any) {
	w.left -= len(s.Required) + (len(s.Properties)+len(s.DependentRequired)+len(s.DependentSchemas))/4
	for key, value := range m {
		w.left -= len(s.DependentRequired[key])
		if schema := s.DependentSchemas[key]; schema != nil {
			w.apply(schema, m)
		}
		named := false
		if property := s.Properties[key]; property != nil {
			named = true
			w.below(property, key, value)
		}
		for pattern, schema := range s.PatternProperties {
			w.match(pattern, key)
			if w.left > 0 && pattern.MatchString(key) {
				named = true
				w.below(schema, key, value)
			}
		}
		if additional, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !named {
			w.below(additional, key, value)
		}
		if s.PropertyNames != nil {
			w.below(s.PropertyNames, key, key)
		}
		if s.UnevaluatedProperties != nil {
			w.below(s.UnevaluatedProperties, key, value)
		}
		if w.left <= 0 {
			return
		}
	}
}

func (w *work) list(s *jsonschema.Schema, list []any) {
	if s.UniqueItems {
		w.left -= len(list) * len(list) / 64 // the library may compare each with each
	}
	for i, element := range list {
		switch items := s.Items.(type) {
		case *jsonschema.Schema:
			w.apply(items, element)
		case []*jsonschema.Schema:
			if i < len(items) {
				w.apply(items[i], element)
			} else if additional, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
				w.apply(additional, element)
			}
		}
		if s.Contains != nil {
			w.apply(s.Contains, element)
		}
		if s.UnevaluatedItems != nil {
			w.apply(s.UnevaluatedItems, element)
		}
		if w.left <= 0 {
			return
		}
	}
}

// match counts a pattern: the time of a match grows with the length of the text times the size of the pattern's program.
func (w *work) match(pattern *regexp.Regexp, text string) {
	if pattern != nil {
		w.left -= 1 + len(text)*w.costs[pattern.String()]/256
	}
}
