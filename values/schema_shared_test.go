package values

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Issue 4: validation never mutates, valid or not; a second look says the same.
func TestValidationNeverMutates(t *testing.T) {
	invalid := 0
	for seed := range often[uint64](1000) {
		r := rand.New(rand.NewPCG(seed, 30))
		schema := jsonText(t, randomSchema(r, 3))
		schemas := schemasOf(t, schema, schema)
		section, err := NewSection("m", schemas, Layer{Source: "f", Value: randomMap(r, 3)})
		wantError(t, err)
		section, err = section.WithConfig(randomMap(r, 3), Origin{})
		wantError(t, err)
		before := jsonText(t, []any{section.Merged(), section.Config()})
		for range 2 {
			first := []error{section.ValidateConfig(), section.ValidateValues(), section.ValidateForHelm()}
			second := []error{section.ValidateConfig(), section.ValidateValues(), section.ValidateForHelm()}
			for i := range first {
				if (first[i] == nil) != (second[i] == nil) || first[i] != nil && first[i].Error() != second[i].Error() {
					t.Fatalf("seed %d: %v, then %v", seed, first[i], second[i])
				}
				if first[i] != nil {
					invalid++
				}
			}
		}
		if jsonText(t, []any{section.Merged(), section.Config()}) != before {
			t.Fatalf("seed %d: the values were changed", seed)
		}
	}
	if invalid < often(500) {
		t.Errorf("only %d were invalid; the test shows little", invalid)
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
		"contains", "propertyNames", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems"}
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
	case "if":
		s["if"], s["then"], s["else"] = randomSchema(r, depth), randomSchema(r, depth), randomSchema(r, depth)
	default:
		s[keyword] = []any{randomSchema(r, depth), randomSchema(r, depth)}
	}
}
