package values

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The checker and the compiler's validation agree, on random schemas and random values, and what people read is what follows
// from the compiler's explanation.
func TestCheckerAgreesWithValidation(t *testing.T) {
	valid := 0
	for seed := range often[uint64](2000) {
		r := rand.New(rand.NewPCG(seed, 6))
		text := jsonText(t, randomSchema(r, 3))
		schemas, err := CompileSchemas(SchemaFile{}, SchemaFile{"values.yaml", []byte(text)})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		for range 5 {
			value := any(randomMap(r, 3))
			got := violations(t, schemas.values.validate("m", value, nil))
			want := referenceViolations(t, schemas.values, "m", value)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d:\nschema %s\n   -> %s\nvalue %s\n got %s\nwant %s",
					seed, text, jsonText(t, schemas.values.document), jsonText(t, value), strings.Join(got, "\n     "), strings.Join(want, "\n     "))
			}
			if want == nil {
				valid++
			}
		}
	}
	if valid < often(1000) || valid > often(9000) {
		t.Errorf("%d of %d were valid; the test shows little", valid, often(10000))
	}
}

func randomSchema(r *rand.Rand, depth int) map[string]any {
	s := map[string]any{}
	for range 1 + r.IntN(3) {
		switch r.IntN(19) {
		case 0, 1:
			s["type"] = []any{"object", "string", "integer", "number", "boolean", "array"}[r.IntN(6)]
		case 2:
			s["nullable"] = true
		case 3:
			s["enum"] = []any{randomTree(r, 1), randomTree(r, 1), "text0", int64(1)}
		case 4:
			s["minimum"], s["exclusiveMaximum"] = int64(r.IntN(2)), 2.5
		case 5:
			s[[]string{"minProperties", "maxLength", "minItems", "multipleOf"}[r.IntN(4)]] = int64(1 + r.IntN(3))
		case 6:
			s["required"] = []any{randomElement(r)}
		case 7:
			s["additionalProperties"] = []any{true, false, map[string]any{"type": "integer"}}[r.IntN(3)]
		case 8:
			s["format"] = []any{"int32", "date-time", "duration"}[r.IntN(3)]
		case 9:
			if r.IntN(4) == 0 {
				s["uniqueItems"] = true
			}
		case 10:
			s["const"] = randomTree(r, 2)
		case 11:
			s["dependentRequired"] = map[string]any{randomElement(r): []any{randomElement(r)}}
		case 12:
			s["pattern"] = "[12]$"
		default:
			if depth > 0 {
				addBranch(r, s, depth-1)
			}
		}
	}
	return s
}

func addBranch(r *rand.Rand, s map[string]any, depth int) {
	keywords := []string{"properties", "properties", "properties", "patternProperties", "items", "allOf", "anyOf", "oneOf", "not", "if",
		"contains", "propertyNames", "dependentSchemas", "list of items", "unevaluatedProperties", "unevaluatedItems"}
	switch keyword := keywords[r.IntN(len(keywords))]; keyword {
	case "properties":
		properties := map[string]any{}
		for range 1 + r.IntN(4) {
			properties[randomElement(r)] = randomSchema(r, depth)
		}
		s[keyword] = properties
	case "patternProperties":
		s[keyword] = map[string]any{fmt.Sprintf("^[%c-c]", 'a'+rune(r.IntN(3))): randomSchema(r, depth)}
	case "dependentSchemas":
		s[keyword] = map[string]any{randomElement(r): randomSchema(r, depth)}
	case "items", "not", "unevaluatedProperties", "unevaluatedItems":
		s[keyword] = randomSchema(r, depth)
	case "contains":
		s[keyword] = randomSchema(r, depth)
		s[[]string{"minContains", "maxContains", "maxItems"}[r.IntN(3)]] = int64(r.IntN(3))
	case "propertyNames":
		s[keyword] = []any{map[string]any{"maxLength": int64(1)}, map[string]any{"pattern": "[a-c]"}, map[string]any{"type": "integer"},
			map[string]any{"anyOf": []any{map[string]any{"enum": []any{"a"}}, map[string]any{"not": map[string]any{"minLength": int64(1)}}}}}[r.IntN(4)]
	case "list of items":
		s["items"] = []any{randomSchema(r, depth), randomSchema(r, depth)}
		if r.IntN(2) == 0 {
			s["additionalItems"] = []any{false, true, map[string]any{"type": "string"}}[r.IntN(3)]
		}
	case "if":
		s["if"], s["then"], s["else"] = randomSchema(r, depth), randomSchema(r, depth), randomSchema(r, depth)
	default:
		s[keyword] = []any{randomSchema(r, depth), randomSchema(r, depth)}
	}
}

// A check of valid values needs no memory, not even to know which keys were evaluated: values are checked at every change.
func TestChecksOfValidValuesAllocateNothing(t *testing.T) {
	schemas, err := CompileSchemas(SchemaFile{}, SchemaFile{"values.yaml", []byte(`
properties:
  a: {$ref: '#/definitions/a'}
  l: {items: {$ref: '#/definitions/a'}}
oneOf: [{properties: {b: {const: one}}}, {properties: {b: {const: two}, c: {minimum: 1}}}]
definitions:
  a: {properties: {text: {type: string, minLength: 1}, number: {type: integer, maximum: 9}}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	a := map[string]any{"text": "v1", "number": int64(1)}
	var value any = map[string]any{"a": a, "l": []any{a, a}, "b": "two", "c": int64(1)}
	if allocated := testing.AllocsPerRun(100, func() {
		if err := schemas.values.validate("m", value, nil); err != nil {
			t.Error(err)
		}
	}); allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}

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
			bad:    map[string][]string{"{a: 1}": {"m.b: is required"}, "{b: 1}": {"m.b: is not allowed together with the other values here"}},
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
