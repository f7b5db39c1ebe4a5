package server

import (
	"fmt"
	"strings"

	"addon-operator/values"
)

// manyNames bounds how many names an error lists.
const manyNames = 30

// unknown is the error, with 404, for a name that does not exist. It proposes the name that was
// probably meant, else it lists those that exist.
func unknown(what, name string, known []string) error {
	text := fmt.Sprintf("%s %q not found", what, name)
	switch meant := values.Near(name, known); {
	case meant != "":
		text += "; did you mean " + meant + "?"
	case len(known) == 0:
		text += "; there are none yet"
	case len(known) > manyNames:
		text += fmt.Sprintf("; %d are available: %s …", len(known), strings.Join(known[:manyNames], ", "))
	default:
		text += "; available: " + strings.Join(known, ", ")
	}
	return notFound("%s", text)
}
