package values

import "github.com/santhosh-tekuri/jsonschema/v5"

// maxWork bounds how much the library does with one section. It has no limit of its own, and keeps each failure of
// each alternative in memory. Real modules need some thousands.
const maxWork = 500_000

// work estimates what a validation costs before it begins: how many schemas are applied to values. It decides
// nothing: an alternative that would end early counts as a whole.
type work struct{ left int }

// affordable reports whether a validation is within maxWork.
func (s *schema) affordable(value any) bool {
	w := &work{maxWork}
	w.apply(s.compiled, value, 0, 0)
	return w.left > 0
}

// apply counts one schema that is applied to a value. level is how many schemas are applied around it, and way the
// length of the keys that lead to the value: a failure is kept with both.
func (w *work) apply(s *jsonschema.Schema, value any, level, way int) {
	if s == nil || w.left <= 0 {
		return
	}
	w.left -= 1 + level/8 + way/64
	below := func(value any, way int, schemas ...*jsonschema.Schema) {
		for _, one := range schemas {
			w.apply(one, value, level+1, way)
		}
	}
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
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
