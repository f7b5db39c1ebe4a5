package values

import (
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
		{"both files", "{properties: {a: 5}}", "{properties: []}", []string{"config-values.yaml: /properties/a: must be a schema, is an integer", "openapi/values.yaml: /properties: must be a map of schemas, is a list"}},
		{"a place inside a definition", "", "{definitions: {x: {properties: {w: {type: 7}}}}, properties: {a: {$ref: '#/definitions/x'}}}", []string{"/definitions/x/properties/w/type"}},
		{"$ref to nowhere", "", "{properties: {a: {$ref: '#/definitions/x'}}}", []string{`/properties/a/$ref: there is no schema "#/definitions/x"; write it below definitions`}},
		{"$ref to a file", "", "{properties: {a: {$ref: 'other.yaml'}}}", []string{"such as #/definitions/name"}},
		{"$ref to the network", "", "{properties: {a: {$ref: 'http://example.com/x#/a'}}}", []string{"such as #/definitions/name"}},
		{"$ref is no text", "", "{properties: {a: {$ref: 1}}}", []string{"/properties/a/$ref: must be a reference to a schema of the same file"}},
		{"a loop of $ref", "", "{definitions: {x: {$ref: '#/definitions/z'}, z: {allOf: [{$ref: '#/definitions/x'}]}}, properties: {a: {$ref: '#/definitions/x'}}}", []string{"refers to itself"}},
		{"allOf is no list", "", "{allOf: {}}", []string{"/allOf: must be a list of schemas"}},
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
