package values

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The checker and the compiler's validation agree, on random schemas and random values.
func TestCheckerAgreesWithValidation(t *testing.T) {
	valid, decided := 0, 0
	for seed := range often[uint64](2000) {
		r := rand.New(rand.NewPCG(seed, 6))
		text := jsonText(t, randomSchema(r, 3))
		schemas, err := CompileSchemas(SchemaFile{}, SchemaFile{"values.yaml", []byte(text)})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		for range 5 {
			value := any(randomMap(r, 3))
			c := schemas.values.checker
			fast := c.fits(schemas.values.compiled, value, nil)
			slow := schemas.values.compiled.Validate(value)
			if !c.unsure && fast != (slow == nil) {
				t.Fatalf("seed %d: the checker says %v, the validation %v\nschema %s\n   -> %s\nvalue %s",
					seed, fast, slow, text, jsonText(t, schemas.values.document), jsonText(t, value))
			}
			if slow == nil {
				valid++
			}
			if !c.unsure {
				decided++
			}
		}
	}
	if valid < often(1000) || decided < often(7000) {
		t.Errorf("%d of %d were valid, %d decided; the test shows little", valid, often(10000), decided)
	}
}

func randomSchema(r *rand.Rand, depth int) map[string]any {
	s := map[string]any{}
	for range 1 + r.IntN(3) {
		switch r.IntN(16) {
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
		default:
			if depth > 0 {
				addBranch(r, s, depth-1)
			}
		}
	}
	return s
}

func addBranch(r *rand.Rand, s map[string]any, depth int) {
	switch keyword := []string{"properties", "properties", "properties", "patternProperties", "items", "allOf", "anyOf", "oneOf", "not", "if"}[r.IntN(10)]; keyword {
	case "properties":
		properties := map[string]any{}
		for range 1 + r.IntN(4) {
			properties[randomElement(r)] = randomSchema(r, depth)
		}
		s[keyword] = properties
	case "patternProperties":
		s[keyword] = map[string]any{fmt.Sprintf("^[%c-c]", 'a'+rune(r.IntN(3))): randomSchema(r, depth)}
	case "items", "not":
		s[keyword] = randomSchema(r, depth)
	case "if":
		s["if"], s["then"], s["else"] = randomSchema(r, depth), randomSchema(r, depth), randomSchema(r, depth)
	default:
		s[keyword] = []any{randomSchema(r, depth), randomSchema(r, depth)}
	}
}

// What the checker leaves to the compiler's validation is decided there, wherever it stands.
func TestUnusualSchemas(t *testing.T) {
	for _, tc := range []schemaCase{
		{
			name:   "contains",
			schema: `{properties: {l: {type: array, contains: {const: 1}}}}`,
			good:   []string{"{l: [2, 1]}"},
			bad:    map[string][]string{"{l: [2]}": {"m.l[0]: must be 1, is 2"}},
		}, {
			name:   "propertyNames beside branches",
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
			name:   "a schema for each place of a list",
			schema: `{properties: {l: {items: [{type: integer}, {type: object, properties: {a: {}}}]}}}`,
			good:   []string{"{l: [1, {a: 1}]}", "{l: [1]}"},
			bad:    map[string][]string{"{l: [x, {b: 1}]}": {"m.l[0]: must be an integer, is a text", "m.l[1].b: is not a known key"}},
		},
	} {
		tc.run(t)
	}
}
