package values

import "testing"

// Keywords that few schemas have.
func TestUnusualSchemas(t *testing.T) {
	for _, tc := range []schemaCase{
		{
			name:   "contains",
			schema: `{properties: {l: {type: array, contains: {const: 1}}}}`,
			good:   []string{"{l: [2, 1]}"},
			bad:    map[string][]string{"{l: [2]}": {"m.l[0]: must be 1, is 2"}},
		}, {
			name:   "propertyNames next to branches",
			schema: `{propertyNames: {maxLength: 2}, allOf: [{properties: {ab: {}}}, {properties: {abc: {}}}]}`,
			good:   []string{"{ab: 1}"},
			bad:    map[string][]string{"{abc: 1}": {"m.abc: as a key must have at most 2 characters"}},
		}, {
			name:   "dependentRequired in a branch",
			schema: `{properties: {a: {}, b: {}}, allOf: [{dependentRequired: {a: [b]}}]}`,
			good:   []string{"{a: 1, b: 1}", "{b: 1}"},
			bad:    map[string][]string{"{a: 1}": {"m: property 'b' is required, if 'a' property exists"}},
		}, {
			name:   "dependentSchemas",
			schema: `{properties: {a: {}}, dependentSchemas: {a: {properties: {b: {type: integer}}, required: [b]}}}`,
			good:   []string{"{a: 1, b: 1}", "{}"},
			bad:    map[string][]string{"{a: 1}": {"m.b: is required"}, "{b: 1, c: 1}": {"m.c: is not a known key"}},
		}, {
			name:   "unevaluatedProperties of a branch does not see what other branches evaluate",
			schema: `{allOf: [{properties: {a: {}}}, {unevaluatedProperties: {type: integer}}]}`,
			good:   []string{"{a: 1}"},
			bad:    map[string][]string{"{a: x}": {"m.a: must be an integer, is a string"}},
		}, {
			name:   "a schema for each place of a list",
			schema: `{properties: {l: {items: [{type: integer}, {type: object, properties: {a: {}}}]}}}`,
			good:   []string{"{l: [1, {a: 1}]}", "{l: [1]}"},
			bad:    map[string][]string{"{l: [x, {b: 1}]}": {"m.l[0]: must be an integer, is a string", "m.l[1].b: is not a known key"}},
		},
	} {
		tc.run(t)
	}
}
