package scenario

import (
	"cmp"
	_ "embed" // the schema is a file of its own so that editors can use it
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"addon-operator/values"
)

//go:embed module-test.v1.schema.json
var schemaText []byte

// checkShape validates a test, or a part of it, against the schema. The error has every violation
// in a line, with its position in the file, its place in the test, and what to do. tree is what is
// validated; w only has the positions, so tree may differ from what is written there.
func checkShape(w *written, tree map[string]any) error {
	format, err := values.NewFormat("scenarios", schemaText)
	if err != nil {
		return err
	}
	misfits, err := format.Misfits(tree)
	if err != nil || len(misfits) == 0 {
		return err
	}
	var problems []string
	for _, m := range misfits {
		problems = append(problems, explain(w, m)...)
	}
	slices.Sort(problems)
	return errors.New(strings.Join(slices.Compact(problems), "\n"))
}

// explain describes a violation for authors, with the place as they write it: steps[0].apply. Those
// that authors make most get a text of their own, because the validator's speaks of schemas: of an
// unknown key it names no near one, and of a pattern it shows the expression and not the meaning,
// which the schema has as a description.
func explain(w *written, m values.Misfit) []string {
	place, at := placeOf(append(slices.Clone(w.path), m.At...)), w.at(m.At...)+": "
	switch m.Keyword {
	case "additionalProperties":
		// The validator joins all unknown keys of a map in one message, in quotes. Each has a
		// position of its own.
		known, _ := m.Rule["properties"].(map[string]any)
		names := slices.Sorted(maps.Keys(known))
		var out []string
		for _, quoted := range regexp.MustCompile(`'([^']*)'`).FindAllStringSubmatch(m.Message, -1) {
			out = append(out, w.at(append(slices.Clone(m.At), quoted[1])...)+": "+joined(place, quoted[1])+" is unknown; "+nearest(quoted[1], names))
		}
		return out
	case "maxProperties":
		return []string{at + place + " must have one key only: write a list element for each thing that happens"}
	case "minProperties":
		return []string{at + place + " is empty: write what happens"}
	case "pattern":
		meaning, _ := m.Rule["description"].(string)
		return []string{at + place + ": the text does not fit; " + meaning}
	}
	place = cmp.Or(place, "the scenario")
	return []string{at + place + ": " + m.Message}
}

// joined is the place of a key in a map; the place "" is the whole test.
func joined(place, key string) string {
	if place == "" {
		return key
	}
	return place + "." + key
}

// placeOf joins keys and positions: steps[0].apply. A key of digits only looks like a position; the
// schema has none, and in values that is good enough.
func placeOf(tokens []string) (place string) {
	for _, token := range tokens {
		if strings.Trim(token, "0123456789") == "" {
			place += "[" + token + "]"
		} else {
			place = joined(place, token)
		}
	}
	return place
}

// nearest proposes the name that was probably meant, or else all that there are.
func nearest(name string, known []string) string {
	return values.DidYouMean(name, known, "write one of "+strings.Join(known, ", "))
}
