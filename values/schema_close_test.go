package values

import "testing"

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
