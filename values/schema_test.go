package values

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// check validates a tree, given as YAML, as the values of module m.
func check(t *testing.T, schema, values string) []string {
	t.Helper()
	schemas := schemasOf(t, "", schema)
	return violations(t, schemas.values.validate("m", yamlTree(t, values), secretPath))
}

// schemaCase is one schema with values that must be right and values that must be wrong.
type schemaCase struct {
	name   string
	schema string
	good   []string
	bad    map[string][]string // values → violations
}

func (tc schemaCase) run(t *testing.T) {
	t.Run(tc.name, func(t *testing.T) {
		for _, values := range tc.good {
			if got := check(t, tc.schema, values); got != nil {
				t.Errorf("%s: %q, want it to be valid", values, got)
			}
		}
		for values, want := range tc.bad {
			got := check(t, tc.schema, values)
			if len(got) != len(want) {
				t.Errorf("%s:\n got %q\nwant %q", values, got, want)
				continue
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%s:\n got %q\nwant %q", values, got[i], want[i])
				}
			}
		}
	})
}

// D30
func TestDialect(t *testing.T) {
	for _, tc := range []schemaCase{
		{
			name:   "nullable",
			schema: `{properties: {a: {type: string, nullable: true}, e: {type: string, enum: [x], nullable: true}, s: {type: string}}}`,
			good:   []string{"{a: null, e: null}", "{a: text, e: x}"},
			bad: map[string][]string{
				"{a: 1, e: z, s: null}": {"m.a: must be a string or null, is an integer", `m.e: must be one of "x", null, is "z"`, "m.s: must be a string, is null"},
			},
		}, {
			name: "nullable with branches",
			schema: `
definitions: {box: {type: object, properties: {a: {type: integer}}}}
properties:
  a: {nullable: true, allOf: [{$ref: '#/definitions/box'}]}
  b: {nullable: true, $ref: '#/definitions/box'}
  c: {nullable: true, oneOf: [{type: string}, {type: integer}]}
`,
			good: []string{"{a: null, b: null, c: null}", "{a: {a: 1}, b: {a: 1}, c: 1}"},
			bad: map[string][]string{
				"{a: {a: text}}": {"m.a.a: must be an integer, is a string"},
				"{b: {x: 1}}":    {"m.b.x: is not a known key"},
				"{c: true}":      {"m.c: fits none of the alternatives of oneOf: must be a string, is a boolean; or must be an integer, is a boolean"},
			},
		}, {
			name:   "exclusive bounds of OpenAPI 3.0 and 3.1",
			schema: `{properties: {a: {minimum: 1, exclusiveMinimum: true}, b: {maximum: 9, exclusiveMaximum: true}, c: {exclusiveMinimum: 1}, d: {minimum: 1, exclusiveMinimum: false}}}`,
			good:   []string{"{a: 2, b: 8, c: 2, d: 1}"},
			bad: map[string][]string{
				"{a: 1, b: 9, c: 1, d: 0}": {"m.a: must be more than 1, is 1", "m.b: must be less than 9, is 9", "m.c: must be more than 1, is 1", "m.d: must be at least 1, is 0"},
			},
		}, {
			name:   "limits",
			schema: `{properties: {s: {type: string, minLength: 2, maxLength: 3, pattern: '^[a-z]*$'}, l: {type: array, minItems: 1, maxItems: 2, uniqueItems: true}, o: {type: object, minProperties: 1, maxProperties: 2}, i: {multipleOf: 3, maximum: 9}, c: {const: x}}}`,
			good:   []string{"{s: ab, l: [1, 2], o: {a: 1}, i: 6, c: x}"},
			bad: map[string][]string{
				"{s: A}":                {`m.s: must have at least 2 characters, is "A"`, `m.s: must match the pattern ^[a-z]*$, is "A"`},
				"{s: abcd}":             {`m.s: must have at most 3 characters, is "abcd"`},
				"{l: [], o: {}}":        {"m.l: must have at least 1 elements", "m.o: must have at least 1 keys"},
				"{l: [1, 1], i: 10}":    {"m.i: must be a multiple of 3, is 10", "m.i: must be at most 9, is 10", "m.l: must not have equal elements"},
				"{l: [1, 2, 3], c: z}":  {`m.c: must be "x", is "z"`, "m.l: must have at most 2 elements"},
				"{o: {a: 1, b: , c: }}": {"m.o: must have at most 2 keys"},
			},
		}, {
			name:   "formats",
			schema: `{properties: {i: {type: integer, format: int32}, j: {format: int64}, t: {format: date-time}, d: {format: duration}, c: {format: cidr}, u: {format: my-own}}}`,
			good:   []string{"{i: 1, j: 9223372036854775807, t: 2001-01-01T00:00:00Z, d: 1h30m, c: 10.0.0.0/8, u: anything}", "{d: PT1H}", "{c: 1, d: 1}"},
			bad: map[string][]string{
				"{i: 2147483648, j: 9223372036854775808}": {"m.i: must have the format int32, is 2147483648", "m.j: must have the format int64, is 9223372036854775808"},
				"{t: yesterday, d: soon, c: 10.0.0.0/99}": {`m.c: must have the format cidr, is "10.0.0.0/99"`, `m.d: must have the format duration, is "soon"`, `m.t: must have the format date-time, is "yesterday"`},
			},
		}, {
			name:   "integers of any size are integers",
			schema: `{properties: {a: {type: integer}, b: {type: number}}}`,
			good:   []string{"{a: 123456789012345678901234567890, b: 1}", "{a: 1.0, b: 1.5}", "{a: 1e6}"},
			bad:    map[string][]string{"{a: 1.5, b: text}": {"m.a: must be an integer, is a number", "m.b: must be a number, is a string"}},
		}, {
			name: "recursive schemas",
			schema: `
definitions:
  node: {type: object, properties: {name: {type: string}, children: {type: array, items: {$ref: '#/definitions/node'}}}}
properties: {tree: {$ref: '#/definitions/node'}}
`,
			good: []string{"{tree: {name: a, children: [{name: b, children: [{}]}]}}"},
			bad: map[string][]string{
				"{tree: {children: [{children: [{x: 1}]}]}}": {"m.tree.children[0].children[0].x: is not a known key"},
			},
		}, {
			name: "recursive schemas with branches",
			schema: `
definitions:
  base: {type: object, properties: {name: {type: string}}}
  node: {allOf: [{$ref: '#/definitions/base'}, {properties: {child: {$ref: '#/definitions/node'}}}, {properties: {child: {properties: {extra: {}}}}}]}
$ref: '#/definitions/node'
`,
			good: []string{"{name: a, child: {name: b, extra: 1, child: {name: c}}}"},
			bad: map[string][]string{
				"{child: {child: {child: {x: 1}}}}": {"m.child.child.child.x: is not a known key"},
			},
		}, {
			name:   "$ref to another schema of the file",
			schema: `{$defs: {size: {type: integer, minimum: 1}}, properties: {a: {$ref: '#/$defs/size'}, b: {$ref: '#/properties/a'}, 'c/d': {$ref: '#/properties/b'}, e: {$ref: '#/properties/c~1d'}}}`,
			good:   []string{"{a: 1, b: 1, e: 1}"},
			bad:    map[string][]string{"{b: 0, e: 0}": {"m.b: must be at least 1, is 0", "m.e: must be at least 1, is 0"}},
		}, {
			name:   "x- keys (D35), examples and unknown keywords are ignored",
			schema: `{type: object, x-doc: {type: 5}, example: {a: 1}, deprecated: true, properties: {a: {type: string, x-examples: [1, 2], xml: {name: a}}}}`,
			good:   []string{"{a: text}"},
		}, {
			name:   "lists of types and boolean schemas",
			schema: `{properties: {a: {type: [string, integer]}, b: true, c: false, d: }}`,
			good:   []string{"{a: 1, b: {x: 1}, d: 1}", "{a: text}"},
			bad:    map[string][]string{"{a: true}": {"m.a: must be a string or an integer, is a boolean"}},
		}, {
			name:   "sections that are lists",
			schema: `{type: array, items: {type: object, properties: {a: {type: integer}}}}`,
			good:   []string{"[]", "[{a: 1}]"},
			bad: map[string][]string{
				"[{a: x}, {b: 1}]": {"m[0].a: must be an integer, is a string", "m[1].b: is not a known key"},
				"{}":               {"m: must be a list, is a map"},
			},
		}, {
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
		},
	} {
		tc.run(t)
	}
}

// A19: broken schemas are refused with the file and the place; all of them.
func TestBrokenSchemas(t *testing.T) {
	for _, tc := range []struct {
		name           string
		config, values string
		want           []string
	}{
		{"no YAML", "a: [", "", []string{"schema openapi/config-values.yaml", "line 1"}},
		{"no map", "[]", "", []string{"must be a map, is a list"}},
		{"unknown type", "", "{properties: {a: {type: text}}}", []string{"schema openapi/values.yaml", "/properties/a/type"}},
		{"wrong keyword", "{properties: {a: {required: true}}}", "", []string{"/properties/a/required"}},
		{"broken pattern", "{properties: {a: {pattern: '('}}}", "", []string{"/properties/a/pattern"}},
		{"broken patternProperties", "{patternProperties: {'(': {}}}", "", []string{"patternProperties"}},
		{"both files", "{properties: {a: 5}}", "{properties: []}", []string{"config-values.yaml: /properties/a: must be a schema, is an integer", "openapi/values.yaml: /properties: expected object, but got array"}},
		{"a place inside a definition", "", "{definitions: {x: {properties: {w: {type: 7}}}}, properties: {a: {$ref: '#/definitions/x'}}}", []string{"/definitions/x/properties/w/type"}},
		{"$ref to nowhere", "", "{properties: {a: {$ref: '#/definitions/x'}}}", []string{`/properties/a/$ref: there is no schema "#/definitions/x"; write it below definitions`}},
		{"$ref to a file", "", "{properties: {a: {$ref: 'other.yaml'}}}", []string{"such as #/definitions/name"}},
		{"$ref to the network", "", "{properties: {a: {$ref: 'http://example.com/x#/a'}}}", []string{"such as #/definitions/name"}},
		{"$ref is no text", "", "{properties: {a: {$ref: 1}}}", []string{"/properties/a/$ref: must be a reference to a schema of the same file"}},
		{"a loop of $ref", "", "{definitions: {x: {$ref: '#/definitions/z'}, z: {allOf: [{$ref: '#/definitions/x'}]}}, properties: {a: {$ref: '#/definitions/x'}}}", []string{"refers to itself"}},
		{"allOf is no list", "", "{allOf: {}}", []string{"/allOf: expected array, but got object"}},
		{"x-required-for-helm is a number", "", "{properties: {a: {x-required-for-helm: 5}}}", []string{"/properties/a: x-required-for-helm must be a key or a list of keys"}},
		{"x-extend of another file", "{}", "{x-extend: {schema: other.yaml}}", []string{"x-extend must be {schema: config-values.yaml}"}},
		{"x-extend without the file", "", "{x-extend: {schema: config-values.yaml}}", []string{"there is no openapi/config-values.yaml"}},
		{"x-extend in the wrong file", "{x-extend: {schema: config-values.yaml}}", "", []string{"belongs in values.yaml"}},
		{"duplicate keys", "a: 1\na: 2", "", []string{"line 2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := CompileSchemas(schemaFile("openapi/config-values.yaml", tc.config), schemaFile("openapi/values.yaml", tc.values))
			wantError(t, err, tc.want...)
		})
	}
}

// Without files everything is valid, and so it is with empty ones.
func TestNoSchemas(t *testing.T) {
	for name, schemas := range map[string]*Schemas{
		"nil":   nil,
		"none":  schemasOf(t, "", ""),
		"empty": schemasOf(t, "# nothing\n", "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			section := sectionOf(t, "m", schemas, "{a: 1}", "{b: {c: 2}}")
			wantError(t, section.ValidateConfig())
			wantError(t, section.ValidateValues())
			wantError(t, section.ValidateForHelm())
		})
	}
}

// D32
func TestExtend(t *testing.T) {
	config := `
title: config
description: inherited
definitions: {size: {type: integer}, name: {type: string}}
required: [a, b]
properties: {a: {$ref: '#/definitions/size'}, b: {type: string}}
patternProperties: {'^p': {type: integer}}
x-required-for-helm: [h]
x-doc: inherited
additionalProperties: true
minProperties: 5
`
	values := `
x-extend: {schema: config-values.yaml}
title: own
definitions: {name: {type: boolean}}
required: [b, c]
properties: {b: {type: integer}, c: {$ref: '#/definitions/name'}, h: {}}
x-doc: own
`
	own, _ := yamlTree(t, values).(map[string]any)
	inherited, _ := yamlTree(t, config).(map[string]any)
	got, err := extend("openapi/values.yaml", own, inherited)
	wantError(t, err)
	wantYAML(t, "effective schema", got, `
title: own
description: inherited
definitions: {size: {type: integer}, name: {type: boolean}}
required: [a, b, c]
properties: {a: {$ref: '#/definitions/size'}, b: {type: integer}, c: {$ref: '#/definitions/name'}, h: {}}
patternProperties: {'^p': {type: integer}}
x-required-for-helm: [h]
x-doc: own
`)
	if own["x-extend"] == nil || inherited["x-extend"] != nil {
		t.Error("the files were changed")
	}
	section := sectionOf(t, "m", schemasOf(t, config, values), "{a: 1, b: 2, c: true, p1: 1}", "")
	wantError(t, section.ValidateValues())
	wantViolations(t, section.ValidateForHelm(), "m.h: is required")
}

// D33
func TestRequiredForHelm(t *testing.T) {
	schemas := schemasOf(t, "", `
type: object
required: [always]
x-required-for-helm: [p1, always]
properties:
  always: {}
  p1: {}
  deep: {type: object, x-required-for-helm: text, properties: {text: {}, list: {type: array, items: {type: object, x-required-for-helm: [e], properties: {e: {}, d: {}}}}}}
  ref: {allOf: [{$ref: '#/definitions/r'}]}
definitions: {r: {type: object, x-required-for-helm: [r], properties: {r: {}}}}
`)
	section := sectionOf(t, "m", schemas, "{deep: {list: [{d: 1}, {e: 1}]}, ref: {}}", "")
	wantViolations(t, section.ValidateValues(), "m.always: is required")
	wantViolations(t, section.ValidateForHelm(),
		"m.always: is required", "m.deep.list[0].e: is required", "m.deep.text: is required", "m.p1: is required", "m.ref.r: is required")
}

// D7, D34
func TestDefaults(t *testing.T) {
	for _, tc := range []struct{ name, schema, values, want string }{
		{"a missing key", "{properties: {a: {default: 1}, b: {}}}", "{}", "{a: 1}"},
		{"a key that is there", "{properties: {a: {default: 1}}}", "{a: 2}", "{a: 2}"},
		{"null is there", "{properties: {a: {default: 1}}}", "{a: null}", "{a: null}"},
		{"below a parent that is there", "{properties: {a: {properties: {b: {default: 1}}}}}", "{a: {}}", "{a: {b: 1}}"},
		{"no parent", "{properties: {a: {properties: {b: {default: 1}}}}}", "{}", "{}"},
		{"a default on the parent creates it", "{properties: {a: {default: {}, properties: {b: {default: 1}}}}}", "{}", "{a: {b: 1}}"},
		{"a default with content", "{properties: {a: {default: {c: 2}, properties: {b: {default: 1}, c: {}}}}}", "{}", "{a: {b: 1, c: 2}}"},
		{"elements of lists", "{properties: {l: {items: {properties: {a: {default: 1}}}}}}", "{l: [{}, {a: 2}, 5]}", "{l: [{a: 1}, {a: 2}, 5]}"},
		{"a default list with elements", "{properties: {l: {default: [{}], items: {properties: {a: {default: 1}}}}}}", "{}", "{l: [{a: 1}]}"},
		{"keys of a map", "{additionalProperties: {properties: {a: {default: 1}}}}", "{x: {}, z: {}}", "{x: {a: 1}, z: {a: 1}}"},
		{"named keys are not additional", "{properties: {x: {}}, additionalProperties: {properties: {a: {default: 1}}}}", "{x: {}, z: {}}", "{x: {}, z: {a: 1}}"},
		{"keys of a pattern", "{patternProperties: {'^p': {properties: {a: {default: 1}}}}}", "{p: {}, q: {}}", "{p: {a: 1}, q: {}}"},
		{"through allOf and $ref", "{allOf: [{$ref: '#/definitions/x'}], definitions: {x: {properties: {a: {default: 1}}}}}", "{}", "{a: 1}"},
		{"own default before the one of a $ref", "{properties: {a: {default: 1, $ref: '#/definitions/x'}}, definitions: {x: {default: 2}}}", "{}", "{a: 1}"},
		{"alternatives give no defaults", "{anyOf: [{properties: {a: {default: 1}}}]}", "{}", "{}"},
		{"false, zero and empty are defaults", "{properties: {a: {default: false}, b: {default: 0}, c: {default: ''}, d: {default: []}}}", "{}", "{a: false, b: 0, c: '', d: []}"},
		{"a default of null is none", "{properties: {a: {default: null}}}", "{}", "{}"},
		{"the whole section", "{default: {a: 1}}", "", "{a: 1}"},
		{"recursive schemas", "{definitions: {d: {properties: {v: {default: 1}, d: {$ref: '#/definitions/d'}}}}, $ref: '#/definitions/d'}", "{d: {d: {}}}", "{v: 1, d: {v: 1, d: {v: 1}}}"},
		{"a recursive default that ends", "{definitions: {d: {properties: {v: {default: 1}, d: {$ref: '#/definitions/d'}}}}, properties: {a: {$ref: '#/definitions/d', default: {d: {}}}}}", "{}", "{a: {v: 1, d: {v: 1}}}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.values
			tree := yamlTree(t, tc.values)
			section, err := NewSection("m", schemasOf(t, "", tc.schema), Layer{Value: tree})
			wantError(t, err)
			wantYAML(t, "merged", section.Merged(), tc.want)
			wantYAML(t, "the values themselves", tree, before)
		})
	}
}

// The schema for Helm is compiled only when it differs.
func TestHelmSchemaIsShared(t *testing.T) {
	if s := schemasOf(t, "", "{properties: {a: {}}}"); s.helm != s.values {
		t.Error("compiled twice for nothing")
	}
	if s := schemasOf(t, "", "{properties: {a: {x-required-for-helm: b}}}"); s.helm == s.values {
		t.Error("x-required-for-helm in the depth is overlooked")
	}
	if s := schemasOf(t, "{x-required-for-helm: a}", "{x-extend: {schema: config-values.yaml}}"); s.helm == s.values {
		t.Error("inherited x-required-for-helm is overlooked")
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

// D31, X28
func TestUnknownKeysAreRefused(t *testing.T) {
	for _, tc := range []schemaCase{
		{
			name:   "at the top and below",
			schema: `{type: object, properties: {a: {type: object, properties: {b: {}}}, l: {type: array, items: {type: object, properties: {c: {}}}}}}`,
			good:   []string{"{}", "{a: {b: 1}, l: [{c: 1}]}"},
			bad: map[string][]string{
				"{x: 1, z: 2}":      {"m.x: is not a known key", "m.z: is not a known key"},
				"{a: {x: 1}}":       {"m.a.x: is not a known key"},
				"{l: [{}, {x: 1}]}": {"m.l[1].x: is not a known key"},
			},
		}, {
			name:   "an object that names no keys is open",
			schema: `{type: object, properties: {discovery: {type: object}}}`,
			good:   []string{"{discovery: {any: {thing: 1}}}"},
		}, {
			name:   "empty properties name no keys",
			schema: `{type: object, properties: {a: {type: object, properties: {}}}}`,
			good:   []string{"{a: {b: 1}}"},
		}, {
			name:   "additionalProperties that is set is respected, and objects below it are closed all the same",
			schema: `{type: object, additionalProperties: true, properties: {a: {type: object, properties: {b: {}}}, s: {type: object, additionalProperties: false}}}`,
			good:   []string{"{x: 1}", "{s: {}}"},
			bad: map[string][]string{
				"{a: {x: 1}}": {"m.a.x: is not a known key"},
				"{s: {x: 1}}": {"m.s.x: is not a known key"},
			},
		}, {
			name:   "additionalProperties with a schema",
			schema: `{type: object, additionalProperties: {type: object, properties: {a: {type: integer}}}}`,
			good:   []string{"{x: {a: 1}}"},
			bad: map[string][]string{
				"{x: {a: text}}": {`m.x.a: must be an integer, is a string`},
				"{x: {b: 1}}":    {"m.x.b: is not a known key"},
			},
		}, {
			name:   "patternProperties name keys",
			schema: `{type: object, patternProperties: {"^p": {type: integer}}}`,
			good:   []string{"{p1: 1, p2: 2}"},
			bad: map[string][]string{
				"{p1: text, x: 1}": {"m.p1: must be an integer, is a string", "m.x: is not a known key"},
			},
		}, {
			name:   "a property called properties, and one called additionalProperties",
			schema: `{type: object, properties: {properties: {type: object, properties: {default: {type: integer}}}, additionalProperties: {type: boolean}}}`,
			good:   []string{"{properties: {default: 1}, additionalProperties: true}"},
			bad:    map[string][]string{"{properties: {x: 1}}": {"m.properties.x: is not a known key"}},
		},
	} {
		tc.run(t)
	}
}

// D31: closing must not break branches.
func TestClosingWithBranches(t *testing.T) {
	for _, tc := range []schemaCase{
		{
			name: "allOf: each branch knows some keys",
			schema: `
allOf:
- {type: object, properties: {a: {type: integer}}}
- {type: object, properties: {b: {type: integer}}}
`,
			good: []string{"{a: 1, b: 2}"},
			bad: map[string][]string{
				"{a: 1, c: 2}":    {"m.c: is not a known key"},
				"{a: text, b: 1}": {"m.a: must be an integer, is a string"},
				"{a: text, c: 1}": {"m.a: must be an integer, is a string", "m.c: is not a known key"},
			},
		}, {
			name: "properties next to oneOf that only constrains them",
			schema: `
type: object
properties:
  mode: {type: string}
  storage: {type: object, properties: {size: {type: integer}, class: {type: string}}}
oneOf:
- properties: {mode: {enum: [plain]}}
- properties: {mode: {enum: [stored]}, storage: {type: object, required: [size], properties: {size: {minimum: 1}}}}
  required: [storage]
`,
			good: []string{"{mode: plain}", "{mode: stored, storage: {size: 1, class: fast}}"},
			bad: map[string][]string{
				"{mode: plain, x: 1}":                       {"m.x: is not a known key"},
				"{mode: stored, storage: {size: 1, x: 1}}":  {"m.storage.x: is not a known key"},
				"{mode: stored, storage: {}}":               {`m: fits none of the alternatives of oneOf: mode: must be one of "plain", is "stored"; or storage.size: is required`},
				"{mode: other, storage: {size: 1}, typo: }": {`m: fits none of the alternatives of oneOf: mode: must be one of "plain", is "other"; or mode: must be one of "stored", is "other"`, "m.typo: is not a known key"},
			},
		}, {
			name: "a key of the alternative that was not taken is known",
			schema: `
type: object
properties: {kind: {type: string}}
required: [kind]
oneOf:
- properties: {kind: {enum: [a]}, forA: {type: integer}}
- properties: {kind: {enum: [b]}, forB: {type: integer}}
`,
			good: []string{"{kind: a, forA: 1}", "{kind: b, forB: 1}", "{kind: a, forB: 1}"},
			bad: map[string][]string{
				"{kind: a, forC: 1}": {"m.forC: is not a known key"},
			},
		}, {
			name: "two branches describe the same object",
			schema: `
allOf:
- properties: {box: {type: object, properties: {a: {type: object, properties: {x: {}}}}}}
- properties: {box: {type: object, properties: {b: {}, a: {type: object, properties: {w: {}}}}}}
`,
			good: []string{"{box: {a: {x: 1, w: 2}, b: 3}}"},
			bad: map[string][]string{
				"{box: {c: 1}}":         {"m.box.c: is not a known key"},
				"{box: {a: {z: 1}}}":    {"m.box.a.z: is not a known key"},
				"{box: {}, unknown: 1}": {"m.unknown: is not a known key"},
			},
		}, {
			name: "an object that only one branch describes is closed there",
			schema: `
allOf:
- properties: {a: {type: object, properties: {x: {}}}}
- properties: {b: {type: array, items: {type: object, properties: {w: {}}}}}
`,
			good: []string{"{a: {x: 1}, b: [{w: 1}]}"},
			bad: map[string][]string{
				"{a: {w: 1}, b: [{x: 1}]}": {"m.a.w: is not a known key", "m.b[0].x: is not a known key"},
			},
		}, {
			name: "elements of lists that two branches describe",
			schema: `
properties: {l: {type: array, items: {type: object, properties: {a: {}}}}}
anyOf:
- properties: {l: {items: {properties: {b: {}}}}}
- properties: {l: {items: {properties: {c: {}}}}}
`,
			good: []string{"{l: [{a: 1, b: 2, c: 3}]}"},
			bad:  map[string][]string{"{l: [{d: 1}]}": {"m.l[0].d: is not a known key"}},
		}, {
			name: "$ref as a branch is open, as a property closed",
			schema: `
definitions:
  base: {type: object, properties: {a: {type: integer}}}
properties:
  alone: {$ref: '#/definitions/base'}
  more: {allOf: [{$ref: '#/definitions/base'}, {properties: {b: {type: integer}}}]}
`,
			good: []string{"{alone: {a: 1}, more: {a: 1, b: 2}}"},
			bad: map[string][]string{
				"{alone: {b: 1}, more: {c: 1}}": {"m.alone.b: is not a known key", "m.more.c: is not a known key"},
			},
		}, {
			name: "a branch that is open opens the whole",
			schema: `
allOf:
- properties: {a: {}}
- additionalProperties: true
`,
			good: []string{"{a: 1, b: 2}"},
		}, {
			name:   "not does not describe anything",
			schema: `{type: object, properties: {a: {}}, not: {properties: {b: {}}, required: [b]}}`,
			good:   []string{"{a: 1}"},
			bad: map[string][]string{
				"{b: 1}": {"m: matches what the schema excludes with not", "m.b: is not a known key"},
			},
		}, {
			name:   "branches that name no keys leave an open object open",
			schema: `{type: object, anyOf: [{required: [a]}, {required: [b]}]}`,
			good:   []string{"{a: 1, x: 2}"},
			bad:    map[string][]string{"{x: 1}": {"m: fits none of the alternatives of anyOf: a: is required; or b: is required"}},
		}, {
			name:   "if, then, else",
			schema: `{type: object, properties: {big: {type: boolean}}, if: {properties: {big: {const: true}}, required: [big]}, then: {properties: {size: {type: integer}}, required: [size]}}`,
			good:   []string{`{big: true, size: 1}`, `{big: false}`, `{big: false, size: 1}`},
			bad:    map[string][]string{`{big: true}`: {"m.size: is required"}},
		},
	} {
		tc.run(t)
	}
}
