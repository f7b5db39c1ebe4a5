package values

import "testing"

// What the compiler gets to see.
func TestTranslate(t *testing.T) {
	for _, tc := range []struct {
		name, schema string
		helm         bool
		want         string
	}{
		{
			name:   "an object is closed at every level, D31",
			schema: "{type: object, title: T, x-doc: d, properties: {a: {type: object, properties: {b: {type: string, example: e}}}, open: {type: object}}}",
			want: `
type: object
additionalProperties: {not: {}}
properties:
  a: {type: object, additionalProperties: {not: {}}, properties: {b: {type: string}}}
  open: {type: object}
`,
		}, {
			name:   "what is required before Helm counts only then, D33",
			schema: "{required: [a], x-required-for-helm: b, additionalProperties: true}",
			want:   "{required: [a], additionalProperties: true}",
		}, {
			name:   "and joins required, D33",
			schema: "{required: [a], x-required-for-helm: b, additionalProperties: true}",
			helm:   true,
			want:   "{required: [b, a], additionalProperties: true}",
		}, {
			name:   "OpenAPI 3.0 becomes JSON Schema, D30",
			schema: "{type: integer, nullable: true, minimum: 1, exclusiveMinimum: true, maximum: 9, exclusiveMaximum: false, enum: [2, 3]}",
			want:   "{type: [integer, 'null'], exclusiveMinimum: 1, maximum: 9, enum: [2, 3, null]}",
		}, {
			name:   "null passes by the branches, D30",
			schema: "{nullable: true, anyOf: [{type: string}, {type: integer}]}",
			want:   "{if: {type: 'null'}, else: {anyOf: [{type: string}, {type: integer}]}}",
		}, {
			name:   "targets of references become definitions",
			schema: "{additionalProperties: {$ref: '#/definitions/x'}, definitions: {x: {type: string}}}",
			want:   "{additionalProperties: {$ref: '#/$defs/0'}, $defs: {'0': {type: string}}}",
		}, {
			name:   "a schema with branches is closed as a whole, with its shape, D31",
			schema: "{properties: {a: {}}, anyOf: [{properties: {b: {}}}]}",
			want: `
allOf: [{$ref: '#/$defs/1'}, {$ref: '#/$defs/0'}]
$defs:
  '0': {properties: {a: {}, b: {}}, additionalProperties: {not: {}}}
  '1': {properties: {a: {}}, anyOf: [{properties: {b: {}}}], unevaluatedProperties: {not: {}}}
`,
		}, {
			name:   "a child of two branches is closed by the shape, D31",
			schema: "{allOf: [{properties: {a: {properties: {b: {}}}}}, {properties: {a: {properties: {c: {}}}}}]}",
			want: `
allOf: [{$ref: '#/$defs/4'}, {$ref: '#/$defs/0'}]
$defs:
  '0': {properties: {a: {$ref: '#/$defs/1'}}, additionalProperties: {not: {}}}
  '1': {properties: {b: {$ref: '#/$defs/2'}, c: {$ref: '#/$defs/3'}}, additionalProperties: {not: {}}}
  '2': {}
  '3': {}
  '4': {allOf: [{properties: {a: {properties: {b: {}}}}}, {properties: {a: {properties: {c: {}}}}}], unevaluatedProperties: {not: {}}}
`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, _ := yamlTree(t, tc.schema).(map[string]any)
			before := jsonText(t, root)
			translated, err := translate(root, tc.helm)
			got := translated.schema
			wantError(t, err)
			wantYAML(t, "translated", got, tc.want)
			if jsonText(t, root) != before {
				t.Error("the author's document was changed")
			}
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
