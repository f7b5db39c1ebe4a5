package values

import (
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// What the compiler gets to see.
func TestTranslate(t *testing.T) {
	for _, tc := range []struct {
		name, schema string
		want         string
	}{
		{
			name:   "keywords without a meaning are left out, D35",
			schema: "{type: object, title: T, x-doc: d, properties: {a: {type: string, example: e}, b: }}",
			want:   "{type: object, properties: {a: {type: string}, b: {}}}",
		}, {
			name:   "references lead to schemas of the file, D30",
			schema: "{properties: {a b: {$ref: '#/definitions/x/properties/b'}, c: {$ref: '#/definitions/x'}, d: {$ref: '#/properties/a b'}, f: {$ref: '#'}}, definitions: {x: {title: T, properties: {b: {type: string}}}}}",
			want: `
properties: {a b: {$ref: '#/definitions/x/properties/b'}, c: {$ref: '#/definitions/x'}, d: {$ref: '#/properties/a%20b'}, f: {$ref: '#'}}
definitions: {x: {properties: {b: {type: string}}}}
`,
		}, {
			name:   "every unknown key is a violation of its own, D31",
			schema: "{additionalProperties: false, properties: {a: false}}",
			want:   "{additionalProperties: {not: {}}, properties: {a: false}}",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, _ := yamlTree(t, tc.schema).(map[string]any)
			before := jsonText(t, root)
			got, err := translate(root, false)
			wantError(t, err)
			wantYAML(t, "translated", got, tc.want)
			_, err = compileAs(jsonschema.Draft2019, []byte(jsonText(t, got)))
			wantError(t, err)
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
