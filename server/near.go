package server

import (
	"fmt"
	"strings"
)

// manyNames are as many as a sentence can list.
const manyNames = 30

// unknown says that there is no such thing, and what was probably meant.
func unknown(what, name string, known []string) error {
	text := fmt.Sprintf("there is no %s %q", what, name)
	switch meant := near(name, known); {
	case meant != "":
		text += "; did you mean " + meant + "?"
	case len(known) == 0:
		text += "; there are none yet"
	case len(known) > manyNames:
		text += fmt.Sprintf("; there are %d: %s …", len(known), strings.Join(known[:manyNames], ", "))
	default:
		text += "; there are: " + strings.Join(known, ", ")
	}
	return notFound("%s", text)
}

// near is the known name that was probably meant, or "": one that the name is a part of,
// or that differs by a few letters.
func near(name string, known []string) string {
	if len(name) >= 3 {
		for _, candidate := range known {
			if strings.Contains(candidate, name) {
				return candidate
			}
		}
	}
	best, least := "", len(name)/3+1
	for _, candidate := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d <= least {
			best, least = candidate, d-1
		}
	}
	return best
}

// distance is how many letters must be put in, taken out or changed (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
