package scenario

import (
	"cmp"
	_ "embed" // the schema is a file of its own so that editors can use it
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"addon-operator/values"
)

//go:embed module-test.v1.schema.json
var schemaText []byte

// testFormat is what a test may contain.
var testFormat = sync.OnceValues(func() (*values.Format, error) { return values.NewFormat("scenarios", schemaText) })

// checkShape validates a test, or a part of it, against the schema. The error has every violation
// in a line, with its position in the file, its place in the test, and what to do. tree is what is
// validated; w only has the positions, so tree may differ from what is written there.
func checkShape(w *written, tree map[string]any) error {
	format, err := testFormat()
	if err != nil {
		return err
	}
	var problems []error
	for _, v := range format.Violations(tree) {
		path, _ := values.ParsePath(v.Path)
		place := cmp.Or(placeOf(append(slices.Clone(w.path), path...)), "the scenario")
		problems = append(problems, fmt.Errorf("%s: %s: %s", w.at(path...), place, v.Message))
	}
	return errors.Join(problems...)
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
