package values

import "strings"

// Nearest returns the known word that was probably meant, or "": the first one that contains the word, or else the one
// that differs in case or in the fewest letters, up to two and a third of the word. What two flags or maintenance
// keys end with does not count.
func Nearest(word string, known []string) string {
	best, least := "", 3
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
		if d := distance(strings.ToLower(asked), strings.ToLower(name)); d < least && d <= len(asked)/3+1 && d < len(name) {
			best, least = candidate, d
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

// distance returns how many letters must be inserted, removed or replaced (Levenshtein). Long words
// are not compared, because the cost is quadratic and the author of a ConfigMap decides how long
// its keys are.
func distance(a, b string) int {
	const long = 64
	if len(a) > long || len(b) > long {
		return max(len(a), len(b))
	}
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
