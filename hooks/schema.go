package hooks

import (
	"bytes"
	_ "embed" // the schemas are files of their own so that editors and CI of hook authors can use them
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"addon-operator/values"
)

//go:embed config.v1.schema.json
var configV1Schema []byte

//go:embed config.v0.schema.json
var configV0Schema []byte

// A schema compiles in a millisecond, which counts with hundreds of hooks: once, at the first use.
var (
	compiledV1 = sync.OnceValues(func() (*jsonschema.Schema, error) { return compileSchema(configV1Schema) })
	compiledV0 = sync.OnceValues(func() (*jsonschema.Schema, error) { return compileSchema(configV0Schema) })
)

func compileSchema(schema []byte) (*jsonschema.Schema, error) {
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft7
	if err := compiler.AddResource("config.json", bytes.NewReader(schema)); err != nil {
		return nil, fmt.Errorf("schema of hook configurations: %w", err)
	}
	compiled, err := compiler.Compile("config.json")
	if err != nil {
		return nil, fmt.Errorf("schema of hook configurations: %w", err)
	}
	return compiled, nil
}

// checkShape validates a document against a schema, whose source explains it, and reports every violation in words.
func checkShape(document place, compile func() (*jsonschema.Schema, error), schema []byte) error {
	compiled, err := compile()
	if err != nil {
		return err
	}
	var invalid *jsonschema.ValidationError
	switch err := compiled.Validate(document.value); {
	case err == nil:
		return nil
	case !errors.As(err, &invalid):
		return fmt.Errorf("schema of hook configurations: %w", err)
	}
	var source map[string]any
	if err := json.Unmarshal(schema, &source); err != nil {
		return fmt.Errorf("schema of hook configurations: %w", err)
	}
	for _, leaf := range leafErrors(invalid) {
		location, keyword := splitPointer(leaf.AbsoluteKeywordLocation)
		rule, _ := resolve(source, location).(map[string]any)
		explain(walk(document, leaf.InstanceLocation), rule, keyword, leaf.Message)
	}
	return nil
}

// leafErrors are those that name a keyword; the others only say that something below them is wrong.
func leafErrors(err *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(err.Causes) == 0 {
		return []*jsonschema.ValidationError{err}
	}
	var leaves []*jsonschema.ValidationError
	for _, cause := range err.Causes {
		leaves = append(leaves, leafErrors(cause)...)
	}
	return leaves
}

// explain says a violation of one keyword of a rule at one place of the document as a sentence.
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

// explainUnknown reports each key the rule does not list, with the key that was probably meant.
func explainUnknown(at place, rule map[string]any) {
	object, _ := at.value.(map[string]any)
	properties, _ := rule["properties"].(map[string]any)
	known := slices.Sorted(maps.Keys(properties))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if _, ok := properties[key]; ok {
			continue
		}
		if near := values.Nearest(key, known); near != "" {
			at.at(key).fail("is unknown; did you mean %s?", near)
		} else {
			at.at(key).fail("is unknown; known are %s", strings.Join(known, ", "))
		}
	}
}

// typeWord is a type of the schemas with its article.
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

func property(rule map[string]any, key string) map[string]any {
	properties, _ := rule["properties"].(map[string]any)
	found, _ := properties[key].(map[string]any)
	return found
}

// meaning appends the description of a rule, which is written to follow a colon.
func meaning(rule map[string]any) string {
	if description, ok := rule["description"].(string); ok {
		return ": " + description
	}
	return ""
}

// quoteHint explains the most frequent mistake with labels: YAML reads an unquoted 1 or true as something else.
func quoteHint(at place, rule map[string]any) string {
	switch at.value.(type) {
	case bool, int64, uint64, float64:
		if rule["type"] == "string" {
			return "; put it in quotes"
		}
	}
	return ""
}

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

// show prints a value of the document, shortened, for a message.
func show(value any) string {
	if value == nil {
		return "null"
	}
	text, err := encode(value)
	if err != nil {
		return typeName(value)
	}
	const longest = 60
	if runes := []rune(string(text)); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return string(text)
}

// walk follows a JSON pointer, as the schema validator writes it, from the document.
func walk(from place, pointer string) place {
	for _, token := range pointerTokens(pointer) {
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

// splitPointer takes "file#/a/b/keyword" apart into "/a/b" and "keyword".
func splitPointer(location string) (pointer, keyword string) {
	_, pointer, _ = strings.Cut(location, "#")
	i := strings.LastIndex(pointer, "/")
	if i < 0 {
		return "", pointer
	}
	return pointer[:i], pointer[i+1:]
}

func resolve(tree any, pointer string) any {
	for _, token := range pointerTokens(pointer) {
		object, _ := tree.(map[string]any)
		tree = object[token]
	}
	return tree
}

func pointerTokens(pointer string) []string {
	var tokens []string
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		if plain, err := url.PathUnescape(token); err == nil {
			token = plain
		}
		tokens = append(tokens, strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
	}
	return tokens
}
