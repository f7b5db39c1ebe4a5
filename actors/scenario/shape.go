package scenario

import (
	"bytes"
	_ "embed" // the schema is a file of its own so that editors can use it
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"addon-operator/values"
)

//go:embed module-test.v1.schema.json
var schemaText []byte

// checkShape validates a document against the schema. The error has every violation,
// with its place and what to do.
func checkShape(document any) error {
	const name = "scenario.json"
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft7
	if err := compiler.AddResource(name, bytes.NewReader(schemaText)); err != nil {
		return fmt.Errorf("schema of scenarios: %w", err)
	}
	compiled, err := compiler.Compile(name)
	if err != nil {
		return fmt.Errorf("schema of scenarios: %w", err)
	}
	var invalid *jsonschema.ValidationError
	if err := compiled.Validate(document); !errors.As(err, &invalid) {
		return err
	}
	var schema any
	if err := json.Unmarshal(schemaText, &schema); err != nil {
		return fmt.Errorf("schema of scenarios: %w", err)
	}
	var problems []string
	var visit func(*jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			visit(cause)
		}
		if len(e.Causes) == 0 {
			problems = append(problems, explain(schema, e)...)
		}
	}
	visit(invalid)
	slices.Sort(problems)
	return errors.New(strings.Join(slices.Compact(problems), "\n  "))
}

// explain says a violation in words, with the place as people write it: steps[0].apply.
func explain(schema any, e *jsonschema.ValidationError) []string {
	place := placeOf(e.InstanceLocation)
	_, pointer, _ := strings.Cut(e.AbsoluteKeywordLocation, "#")
	at := strings.LastIndex(pointer, "/")
	rule, _ := resolve(schema, pointer[:max(at, 0)]).(map[string]any)
	switch pointer[at+1:] {
	case "additionalProperties":
		known, _ := rule["properties"].(map[string]any)
		names := slices.Sorted(maps.Keys(known))
		var out []string
		for _, quoted := range regexp.MustCompile(`'([^']*)'`).FindAllStringSubmatch(e.Message, -1) {
			out = append(out, joined(place, quoted[1])+" is unknown; "+nearest(quoted[1], names))
		}
		return out
	case "maxProperties":
		return []string{place + " must have one key only: write a list element for each thing that happens"}
	case "minProperties":
		return []string{place + " is empty: say what happens"}
	case "pattern":
		meaning, _ := rule["description"].(string)
		return []string{place + ": the text does not fit; " + meaning}
	}
	if place == "" {
		place = "the scenario"
	}
	return []string{place + ": " + e.Message}
}

func joined(place, key string) string {
	if place == "" {
		return key
	}
	return place + "." + key
}

var index = regexp.MustCompile(`/(\d+)`)

func placeOf(pointer string) string {
	text := index.ReplaceAllString(pointer, "[$1]")
	return strings.TrimPrefix(strings.ReplaceAll(text, "/", "."), ".")
}

func resolve(schema any, pointer string) any {
	for part := range strings.SplitSeq(strings.Trim(pointer, "/"), "/") {
		object, _ := schema.(map[string]any)
		if part != "" {
			schema = object[part]
		}
	}
	return schema
}

// nearest proposes the name that was probably meant.
func nearest(name string, known []string) string {
	if best := values.Nearest(name, known); best != "" {
		return "did you mean " + best + "?"
	}
	return "write one of " + strings.Join(known, ", ")
}
