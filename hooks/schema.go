package hooks

import (
	_ "embed" // the schemas are files of their own so that editors and CI of hook authors can use them
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"addon-operator/values"
)

//go:embed config.v1.schema.json
var configV1Schema []byte

//go:embed config.v0.schema.json
var configV0Schema []byte

// Compiling a schema takes a millisecond, which adds up with hundreds of hooks: so it is done once,
// at the first use.
var (
	formatV1 = sync.OnceValues(func() (*values.Format, error) { return values.NewFormat("hook configurations", configV1Schema) })
	formatV0 = sync.OnceValues(func() (*values.Format, error) { return values.NewFormat("hook configurations", configV0Schema) })
)

// checkShape validates a document against a schema, and reports every violation as a sentence: the
// library's own messages name keywords of JSON schema, which authors of hooks need not know. An
// error is one of the operator: the schema is part of it.
func checkShape(document place, format func() (*values.Format, error)) error {
	schema, err := format()
	if err != nil {
		return err
	}
	misfits, err := schema.Misfits(document.value)
	if err != nil {
		return fmt.Errorf("schema of hook configurations: %w", err)
	}
	for _, m := range misfits {
		explain(walk(document, m.At), m.Rule, m.Keyword, m.Message)
	}
	return nil
}

// explain words the violation of one keyword of a rule, at one place of the document.
func explain(at place, rule map[string]any, keyword, message string) {
	switch keyword {
	case "additionalProperties":
		explainUnknown(at, rule)
	case "required":
		required, _ := rule[keyword].([]any)
		for _, key := range required {
			if missing := at.at(fmt.Sprint(key)); !missing.present() {
				missing.fail("is required%s", meaning(property(rule, fmt.Sprint(key))))
			}
		}
	case "type":
		at.fail("must be %s, not %s%s", typeWord(rule[keyword]), typeName(at.value), quoteHint(at, rule))
	case "enum":
		allowed, _ := rule[keyword].([]any)
		at.fail("must be %s, not %s", alternatives(allowed), show(at.value))
	case "const":
		at.fail("must be %s, not %s", show(rule[keyword]), show(at.value))
	case "minItems":
		at.fail("must have at least one element, or be left out")
	case "minProperties":
		at.fail("must not be empty; leave it out to select everything")
	case "minLength":
		at.fail("must not be empty%s", meaning(rule))
	case "minimum":
		at.fail("must be %v or more, not %s", rule[keyword], show(at.value))
	case "maximum":
		at.fail("must be %s or less, not %s", show(rule[keyword]), show(at.value))
	default: // of the library; TestEveryKeywordIsExplained keeps it from being needed
		at.fail("%s", message)
	}
}

// explainUnknown reports each key that the rule does not list, with the key that was probably
// meant.
func explainUnknown(at place, rule map[string]any) {
	object, _ := at.value.(map[string]any)
	properties, _ := rule["properties"].(map[string]any)
	known := slices.Sorted(maps.Keys(properties))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if _, ok := properties[key]; ok {
			continue
		}
		at.at(key).fail("is unknown; %s", values.DidYouMean(key, known, "known are "+strings.Join(known, ", ")))
	}
}

// typeWord returns a type of the schemas with its article.
func typeWord(schemaType any) string {
	switch schemaType {
	case "object":
		return "an object"
	case "array":
		return "a list"
	case "integer":
		return "an integer"
	case "boolean":
		return "true or false"
	}
	return fmt.Sprintf("a %v", schemaType)
}

// property returns the rule for a key of an object; nil when there is none.
func property(rule map[string]any, key string) map[string]any {
	properties, _ := rule["properties"].(map[string]any)
	found, _ := properties[key].(map[string]any)
	return found
}

// meaning appends the description of a rule. The descriptions in the schema files are written to
// follow a colon.
func meaning(rule map[string]any) string {
	if description, ok := rule["description"].(string); ok {
		return ": " + description
	}
	return ""
}

// quoteHint explains the most frequent mistake with labels: YAML reads an unquoted 1 or true as
// something else.
func quoteHint(at place, rule map[string]any) string {
	switch at.value.(type) {
	case bool, int64, float64, json.Number:
		if rule["type"] == "string" {
			return "; put it in quotes"
		}
	}
	return ""
}

// alternatives joins values as in "a, b or c".
func alternatives(values []any) string {
	words := make([]string, len(values))
	for i, value := range values {
		words[i] = show(value)
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// show prints a value of the document for a message, shortened.
func show(value any) string {
	if value == nil {
		return "null"
	}
	text, err := values.Encode(value)
	if err != nil {
		return typeName(value)
	}
	return values.Shorten(string(text), 60)
}

// walk follows keys and positions from the document to a place.
func walk(from place, tokens []string) place {
	for _, token := range tokens {
		if list, ok := from.value.([]any); ok {
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(list) {
				from = place{path: joinIndex(from.path, i), value: list[i], report: from.report}
				continue
			}
		}
		from = from.at(token)
	}
	return from
}
