package values

import (
	"strings"

	"github.com/pmezard/go-difflib/difflib"
)

// Nearest returns the known word that was probably meant, or "": the first one that contains the word, or else the one
// that is most like it, whatever the case, and at most two letters longer or shorter. What two flags or maintenance
// keys end with does not count.
func Nearest(word string, known []string) string {
	best, most := "", 0.65
	for _, candidate := range known {
		asked, name := word, candidate
		for _, end := range []string{flagSuffix, maintenanceSuffix} {
			if strings.HasSuffix(word, end) && strings.HasSuffix(candidate, end) {
				asked, name = strings.TrimSuffix(word, end), strings.TrimSuffix(candidate, end)
			}
		}
		if len(asked) >= 3 && strings.Contains(name, asked) {
			return candidate
		}
		if like := likeness(strings.ToLower(asked), strings.ToLower(name)); like > most {
			best, most = candidate, like
		}
	}
	return best
}

// DidYouMean proposes the word that Nearest finds, or else returns otherwise.
func DidYouMean(word string, known []string, otherwise string) string {
	if meant := Nearest(word, known); meant != "" {
		return "did you mean " + meant + "?"
	}
	return otherwise
}

// likeness is 1 for equal words and 0 for those without a common letter. Long words are not compared, because the
// author of a ConfigMap decides how long its keys are.
func likeness(a, b string) float64 {
	const long = 64
	if max(len(a), len(b)) > min(len(a)+2, len(b)+2, long) {
		return 0
	}
	return difflib.NewMatcher(strings.Split(a, ""), strings.Split(b, "")).Ratio()
}
