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
	depth int // of schemas that are applied within each other
	way   int // length of the place in the values, which the library writes out for each value
	costs map[*regexp.Regexp]int
	enums map[*jsonschema.Schema]int
}

// affordable reports whether a validation is within maxWork.
func (s *schema) affordable(compiled *jsonschema.Schema, value any) bool {
	w := &work{left: maxWork, costs: map[*regexp.Regexp]int{}, enums: map[*jsonschema.Schema]int{}}
	w.apply(compiled, value)
	return w.left > 0
}

// apply counts one schema that is applied to a value. A failure is kept with the ways to it, so deep ones cost more.
func (w *work) apply(s *jsonschema.Schema, value any) {
	if s == nil {
		return
	}
	if w.left -= 1 + w.depth/8 + w.way/64; w.left <= 0 {
		return
	}
	w.depth++
	defer func() { w.depth-- }()
	for _, same := range slices.Concat([]*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf) {
		w.apply(same, value)
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
		_, n, _ = measure(append(slices.Clip(s.Enum), s.Constant...))
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
		w.way += len(key)
		for pattern := range s.PatternProperties {
			w.match(pattern, key)
		}
		if w.left <= 0 {
			return
		}
		for _, schema := range append(schemasForKey(s, key), s.UnevaluatedProperties) {
			w.apply(schema, value)
		}
		w.apply(s.PropertyNames, key)
		w.way -= len(key)
	}
}

func (w *work) list(s *jsonschema.Schema, list []any) {
	if s.UniqueItems {
		w.left -= len(list) * len(list) / 64 // the library may compare each with each
	}
	for i, element := range list {
		item, _ := s.Items.(*jsonschema.Schema)
		if items, ok := s.Items.([]*jsonschema.Schema); ok && i < len(items) {
			item = items[i]
		} else if ok {
			item, _ = s.AdditionalItems.(*jsonschema.Schema)
		}
		for _, schema := range []*jsonschema.Schema{item, s.Contains, s.UnevaluatedItems} {
			w.apply(schema, element)
		}
		if w.left <= 0 {
			return
		}
	}
}

// match counts a pattern: the time of a match grows with the length of the text times the size of the pattern's program.
func (w *work) match(pattern *regexp.Regexp, text string) {
	if pattern == nil {
		return
	}
	if w.costs[pattern] == 0 {
		w.costs[pattern] = 1 + patternCost(pattern.String())
	}
	w.left -= 1 + len(text)*w.costs[pattern]/256
}
