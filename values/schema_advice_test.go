package values

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A default that can never be valid is reported with its place and what is wrong; one that another layer can complete
// is not. D34.
func TestDefaultsThatDoNotFit(t *testing.T) {
	for _, tc := range []struct {
		name, schema string
		want         []string // parts of the problems, in order
	}{
		{"none", "{properties: {a: {type: integer}}}", nil},
		{"one that fits", "{properties: {a: {type: integer, default: 1}}}", nil},
		{"a wrong type", "{properties: {a: {type: integer, default: one}}}", []string{"/properties/a/default: must be an integer, is a string"}},
		{"all of them", "{properties: {a: {type: integer, default: one}, b: {enum: [x, w], default: z}}}", []string{"/properties/a/default: must be an integer", `/properties/b/default: must be one of "x", "w", is "z"`}},
		{"below a default", "{properties: {a: {default: {b: [1, x]}, properties: {b: {items: {type: integer}}}}}}", []string{"/properties/a/default: b[1]: must be an integer, is a string"}},
		{"an unknown key", "{properties: {a: {default: {c: 1}, properties: {b: {}}}}}", []string{"/properties/a/default: c: is not a known key"}},
		{"an unknown key of branches", "{properties: {a: {default: {c: 1}, allOf: [{properties: {b: {}}}], properties: {d: {}}}}}", []string{"/properties/a/default: c: is not a known key"}},
		{"a key of a branch", "{properties: {a: {default: {b: 1}, allOf: [{properties: {b: {}}}], properties: {d: {}}}}}", nil},
		{"the type stands elsewhere", "{properties: {a: {default: x, allOf: [{$ref: '#/definitions/num'}]}}, definitions: {num: {type: integer}}}", []string{"/properties/a/default: must be an integer"}},
		{"the default stands elsewhere", "{properties: {a: {$ref: '#/definitions/num'}}, definitions: {num: {type: integer, default: x}}}", []string{"/definitions/num/default: must be an integer"}},
		{"elements of lists", "{properties: {l: {items: {properties: {a: {type: integer, default: x}}}}}}", []string{"/properties/l/items/properties/a/default: must be an integer"}},
		{"keys of a map", "{additionalProperties: {properties: {a: {minimum: 5, default: 1}}}}", []string{"/additionalProperties/properties/a/default: must be at least 5, is 1"}},
		{"keys of a pattern", "{patternProperties: {'^p': {properties: {a: {type: integer, default: x}}}}}", []string{"/patternProperties/^p/properties/a/default: must be an integer"}},
		{"nullable", "{properties: {a: {nullable: true, allOf: [{type: integer}], default: x}}}", []string{"/properties/a/default: must be an integer"}},
		{"below a nullable one", "{properties: {a: {nullable: true, allOf: [{properties: {b: {type: integer, default: x}}}]}}}", []string{"/properties/a/allOf/0/properties/b/default: must be an integer"}},
		{"the whole section", "{default: {a: x}, properties: {a: {type: integer}}}", []string{"/default: a: must be an integer"}},
		{"no alternative", "{properties: {a: {anyOf: [{type: integer}, {maxLength: 2}], default: long}}}", []string{"/properties/a/default: fits none of the alternatives of anyOf"}},
		{"several alternatives", "{properties: {a: {oneOf: [{type: string}, {maxLength: 2}], default: x}}}", []string{"/properties/a/default: matches more than one alternative"}},
		{"a recursive schema", "{definitions: {d: {properties: {v: {type: integer, default: x}, d: {$ref: '#/definitions/d'}}}}, $ref: '#/definitions/d'}", []string{"/definitions/d/properties/v/default: must be an integer"}},
		{"each is reported once", "{properties: {a: {default: {}, properties: {b: {type: integer, default: x}}}}}", []string{"/properties/a/properties/b/default: must be an integer"}},
		// Other layers add keys to a map, so these can become valid.
		{"a key that others give", "{properties: {a: {default: {}, required: [b], minProperties: 1, properties: {b: {}}}}}", nil},
		{"a key that others give to an alternative", "{properties: {a: {default: {}, oneOf: [{required: [b]}, {required: [c]}], properties: {b: {}, c: {}}}}}", nil},
		{"a key that others give below", "{properties: {a: {default: {l: [{}]}, properties: {l: {items: {required: [b], properties: {b: {}}}}}}}}", nil},
		{"no map in any alternative", "{properties: {a: {default: {}, anyOf: [{type: integer}, {type: string}]}}}", []string{"/properties/a/default: fits none of the alternatives of anyOf"}},
		{"an element too few", "{properties: {a: {default: [], minItems: 1}}}", []string{"/properties/a/default: must have at least 1 element"}},
		{"x-required-for-helm", "{properties: {a: {default: {}, x-required-for-helm: b, properties: {b: {}}}}}", nil},
		{"a secret", "{properties: {password: {type: string, minLength: 99, default: hunter2}}}", []string{"/properties/password/default: must have at least 99 characters"}},
		{"a marked secret", "{properties: {key: {type: string, x-secret: true, minLength: 99, default: hunter2}}}", []string{"/properties/key/default: must have at least 99 characters"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			schemas := schemasOf(t, tc.schema, "")
			got := schemas.Problems()
			if len(got) != len(tc.want) {
				t.Fatalf("got %q\nwant %q", got, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(got[i], want) || !strings.Contains(got[i], schemas.config.path) || strings.Contains(got[i], "hunter2") {
					t.Errorf("got %q\nwant %q", got[i], want)
				}
			}
			if extended := schemasOf(t, tc.schema, "{x-extend: {schema: config-values.yaml}}"); !slices.Equal(extended.Problems(), got) {
				t.Errorf("with x-extend: %q, want what the file says that is extended", extended.Problems())
			}
		})
	}
}

// The report on a file full of mistakes is bounded, and so is the work. D39.
func TestManyDefaultsThatDoNotFit(t *testing.T) {
	var schema strings.Builder
	schema.WriteString("properties:\n")
	for i := range 5000 {
		fmt.Fprintf(&schema, "  a%d: {type: integer, default: x, x-rules: [a]}\n", i)
	}
	schemas := schemasOf(t, schema.String(), "")
	if got := schemas.Problems(); len(got) != maxProblems+1 || !strings.Contains(got[maxProblems], "more than 100 problems") {
		t.Errorf("%d problems; the last is %q", len(got), got[len(got)-1])
	}
	if got := schemas.Warnings(); len(got) != 1 || !strings.Contains(got[0], "and 4995 more") {
		t.Errorf("%q", got)
	}
}

// Rules that are not evaluated are named once for each file; annotations are not. D35.
func TestRulesThatAreNotEvaluated(t *testing.T) {
	for _, tc := range []struct {
		name, schema string
		want         []string // parts of the one warning
	}{
		{"annotations", "{x-description: a, x-doc-required: true, x-examples: [1], x-config-version: 1, properties: {a: {x-doc-validation: 5, title: a, description: b, example: c, deprecated: true}}}", nil},
		{"ours", "{x-required-for-helm: a, properties: {a: {x-secret: true, nullable: true, type: string}}}", nil},
		{"names of keys", "{properties: {x-rules: {}, requires: {}}, required: [x-rules], default: {x-rules: 1}}", nil},
		{"CEL", "{x-deckhouse-validations: [{expression: 'self.a > 1', message: no}], properties: {a: {}}}", []string{"x-deckhouse-validations at /"}},
		{"of Kubernetes", "{properties: {a: {x-kubernetes-validations: []}, b: {x-kubernetes-int-or-string: true}, c: {x-kubernetes-list-type: set}}}", []string{
			"x-kubernetes-validations at /properties/a", "x-kubernetes-int-or-string at /properties/b", "x-kubernetes-list-type at /properties/c",
		}},
		{"of other dialects", "{properties: {a: {prefixItems: [{}]}, b: {dependencies: {c: [d]}}}}", []string{"prefixItems at /properties/a", "dependencies at /properties/b"}},
		{"a typo", "{properties: {a: {type: string, maxLenght: 5}, b: {requires: [c]}}}", []string{"maxLenght at /properties/a, did you mean maxLength?", "requires at /properties/b, did you mean required?"}},
		{"in definitions and branches", "{properties: {a: {$ref: '#/definitions/d'}, b: {anyOf: [{x-rules: [r]}]}}, definitions: {d: {x-validation: v}}}", []string{"x-validation at /definitions/d", "x-rules at /properties/b/anyOf/0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			schemas := schemasOf(t, tc.schema, "")
			got := schemas.Warnings()
			if (len(got) == 1) != (tc.want != nil) || len(got) > 1 {
				t.Fatalf("got %q\nwant one of %q", got, tc.want)
			}
			for _, want := range tc.want {
				if !strings.Contains(got[0], want) || !strings.Contains(got[0], schemas.config.path) {
					t.Errorf("got %q\nwant %q", got[0], want)
				}
			}
			if extended := schemasOf(t, tc.schema, "{x-extend: {schema: config-values.yaml}}"); !slices.Equal(extended.Warnings(), got) {
				t.Errorf("with x-extend: %q, want what the file says that is extended", extended.Warnings())
			}
		})
	}
}
