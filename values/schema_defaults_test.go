package values

import "testing"

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
