package values

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// D30: what JSON Schema and OpenAPI v3 have in common means what the drafts say. Each case is a keyword with instances that fit
// and instances that do not; the rule that objects are closed (D31) stays out of the way, because objects here are open.
func TestKeywordsThatOpenAPIShares(t *testing.T) {
	for _, tc := range []struct {
		name, schema string
		good, bad    []string
	}{
		{"type integer", "{type: integer}", []string{"1", "-1", "1.0", "0"}, []string{"1.1", "text", "{}", "[]", "true", "'1'"}},
		{"type number", "{type: number}", []string{"1", "1.0", "1.1"}, []string{"text", "{}", "[]", "true", "null"}},
		{"type string", "{type: string}", []string{"text", "'1'", "''"}, []string{"1", "1.1", "{}", "[]", "true", "null"}},
		{"type object", "{type: object}", []string{"{}", "{a: 1}"}, []string{"1", "text", "[]", "null"}},
		{"type array", "{type: array, items: {}}", []string{"[]", "[1]"}, []string{"{}", "text", "null"}},
		{"type boolean", "{type: boolean}", []string{"true", "false"}, []string{"0", "''", "text", "null", "[]"}},
		{"no type binds nothing", "{minimum: 3, maxLength: 1, maxItems: 1}", []string{"{a: 1}", "true", "null", "5"}, []string{"2", "text", "[1, 2]"}},
		{"enum", "{enum: [6, foo, [], true, {foo: 12}]}", []string{"6", "foo", "[]", "true", "{foo: 12}", "6.0"}, []string{"4", "false", "[1]", "{foo: 13}", "null"}},
		{"enum tells 0 from false", "{enum: [false]}", []string{"false"}, []string{"0", "[false]", "''"}},
		{"enum tells 1 from true", "{enum: [1]}", []string{"1", "1.0"}, []string{"true"}},
		{"minimum", "{minimum: 1.1}", []string{"2.6", "1.1", "text"}, []string{"0.6"}},
		{"minimum of both signs", "{minimum: -2}", []string{"-1", "0", "-2", "-2.0"}, []string{"-2.0001", "-3"}},
		{"maximum", "{maximum: 3.0}", []string{"2.6", "3", "text"}, []string{"3.5"}},
		{"multipleOf an integer", "{multipleOf: 2}", []string{"10", "0", "text"}, []string{"7"}},
		{"multipleOf a fraction", "{multipleOf: 0.01}", []string{"0.07", "4.5", "0.0075e2"}, []string{"0.00751"}},
		{"minLength counts characters", "{minLength: 2}", []string{"foo", "ää", "1"}, []string{"f", "💩"}},
		{"maxLength counts characters", "{maxLength: 2}", []string{"fo", "💩💩", "100"}, []string{"foo"}},
		{"pattern", "{pattern: '^a*$'}", []string{"aaa", "''", "true"}, []string{"abc"}},
		{"pattern is not anchored", "{pattern: 'a+'}", []string{"xxaayy"}, []string{"xyz"}},
		{"minItems, maxItems", "{minItems: 1, maxItems: 2}", []string{"[1]", "[1, 2]", "text"}, []string{"[]", "[1, 2, 3]"}},
		{"uniqueItems", "{uniqueItems: true}", []string{"[1, 2]", "[[1], [2]]", "[{a: 1}, {a: 2}]", "[1, true]", "[0, false]", "[]"}, []string{"[1, 1]", "[1.0, 1]", "[{a: {b: 1}}, {a: {b: 1}}]", "[[1], [1]]"}},
		{"items", "{items: {type: integer}}", []string{"[1, 2]", "[]", "{foo: bar}"}, []string{"[1, x]"}},
		{"items of items", "{items: {items: {type: integer}}}", []string{"[[1, 2], [3]]"}, []string{"[[1, x]]"}},
		{"required", "{required: [foo]}", []string{"{foo: 1}", "[]", "text", "{foo: null}"}, []string{"{bar: 1}", "{}"}},
		{"minProperties, maxProperties", "{minProperties: 1, maxProperties: 2}", []string{"{a: 1}", "{a: 1, b: 2}", "text"}, []string{"{}", "{a: 1, b: 2, c: 3}"}},
		{"properties", "{properties: {foo: {type: integer}, bar: {type: string}}, additionalProperties: true}", []string{"{foo: 1, bar: b}", "{quux: []}", "[]"}, []string{"{foo: 1, bar: {}}", "{foo: [], bar: {}}"}},
		{"additionalProperties false", "{properties: {foo: {}}, additionalProperties: false}", []string{"{foo: 1}", "[1]"}, []string{"{foo: 1, quux: 2}"}},
		{"additionalProperties with a schema", "{properties: {foo: {}}, additionalProperties: {type: boolean}}", []string{"{foo: 1}", "{foo: 1, quux: true}"}, []string{"{foo: 1, quux: 12}"}},
		{"additionalProperties looks at its own properties only", "{allOf: [{properties: {foo: {}}}], additionalProperties: {type: boolean}}", []string{"{foo: true}"}, []string{"{foo: 1}"}},
		{"allOf", "{allOf: [{required: [bar]}, {required: [foo]}]}", []string{"{foo: 1, bar: 2}"}, []string{"{foo: 1}", "{bar: 2}"}},
		{"allOf with a base", "{required: [a], allOf: [{required: [b]}]}", []string{"{a: 1, b: 1}"}, []string{"{b: 1}", "{a: 1}"}},
		{"anyOf", "{anyOf: [{type: integer}, {minimum: 2}]}", []string{"1", "2.5", "3"}, []string{"1.5"}},
		{"anyOf with a base", "{type: string, anyOf: [{maxLength: 2}, {minLength: 4}]}", []string{"fo", "foobar"}, []string{"3", "foo"}},
		{"oneOf", "{oneOf: [{type: integer}, {minimum: 2}]}", []string{"1", "2.5"}, []string{"3", "1.5"}},
		{"oneOf with required", "{oneOf: [{required: [foo, bar]}, {required: [foo, baz]}]}", []string{"{foo: 1, bar: 2}", "{foo: 1, baz: 3}"}, []string{"{bar: 2}", "{foo: 1, bar: 2, baz: 3}"}},
		{"not", "{not: {type: integer}}", []string{"text", "1.1"}, []string{"1"}},
		{"not of several types", "{not: {type: [integer, boolean]}}", []string{"text"}, []string{"1", "true"}},
		{"not forbids a key", "{properties: {foo: {not: {}}}, additionalProperties: true}", []string{"{bar: 1}"}, []string{"{foo: 1}"}},
		{"$ref to a definition", "{definitions: {pos: {type: integer, minimum: 1}}, additionalProperties: {$ref: '#/definitions/pos'}}", []string{"{a: 1}"}, []string{"{a: 0}", "{a: x}"}},
		{"$ref of $ref", "{definitions: {a: {type: integer}, b: {$ref: '#/definitions/a'}, c: {$ref: '#/definitions/b'}}, items: {$ref: '#/definitions/c'}}", []string{"[5]"}, []string{"[a]"}},
		{"$ref with escapes", "{definitions: {'a~b': {type: integer}, 'a/b': {type: string}}, properties: {t: {$ref: '#/definitions/a~0b'}, s: {$ref: '#/definitions/a~1b'}}}", []string{"{t: 1, s: x}"}, []string{"{t: x}", "{s: 1}"}},
		{"a property that is called $ref", "{properties: {$ref: {type: string}}}", []string{"{$ref: a}"}, []string{"{$ref: 2}"}},
		{"a tree that contains itself", "{properties: {next: {$ref: '#'}}, additionalProperties: false}", []string{"{next: {next: {}}}"}, []string{"{next: {bar: 1}}"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			schemas := schemasOf(t, "", tc.schema)
			for _, text := range tc.good {
				if err := schemas.values.validate("m", yamlTree(t, text), nil); err != nil {
					t.Errorf("%s does not fit: %v", text, err)
				}
			}
			for _, text := range tc.bad {
				if schemas.values.validate("m", yamlTree(t, text), nil) == nil {
					t.Errorf("%s fits", text)
				}
			}
		})
	}
}

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
