// Package values computes the values of modules: it reads layers, merges them, patches them and
// validates them against schemas.
//
// The package is pure: it has no access to files, the cluster, clocks, loggers or goroutines. A
// caller passes bytes and gets trees, sections and errors.
//
// # Trees
//
// A tree is an any made of map[string]any, []any, string, bool, nil, int64, float64 and, for integers that do not fit
// into an int64, json.Number. A number without a fraction is an integer of up to a hundred digits, however it was
// written: 1e6 and 1000000.0 are the int64 1000000, so no chart ever prints 1e+06 (D4). Trees are immutable: a
// function writes only into a tree that it has just made, and functions share subtrees between their arguments and
// their results.
//
// # Layers
//
// A [Section] holds all layers of one key, "global" or the camelCase name of a module, and their
// merged result (D5):
//
//  1. the section of every $MODULES_DIR/values.yaml
//  2. the section of the module's own values.yaml
//  3. defaults of openapi/config-values.yaml
//  4. the section of the ConfigMap, and above it that of the Secret (D40)
//  5. defaults of openapi/values.yaml
//  6. saved values patches of hooks
//
// Sections are immutable as well: a change returns a new section, so an owner can try a change,
// look at the violations and discard the result.
//
// # Patches
//
// What a hook writes is a [Patch] of RFC 6902. It is executed strictly, once, when it arrives (D21). Its adds and
// removes are then saved, and replayed leniently whenever the layers below change (D22, D23). Config patches change
// the layer of ConfigMap and Secret instead and are not saved: these objects keep their result (D24, D41).
//
// # Schemas
//
// Schemas are OpenAPI v3 in YAML. They are translated into JSON Schema 2019-09 and compiled once.
// The translation applies x-extend and x-required-for-helm. Defaults, secrets and the keys that objects may have are
// annotations of the compiled schema. The library validates; its work is estimated before, and its failures become
// sentences (validate.go).
package values
