package values

import "strings"

// Near returns the known name that was probably meant, or "": the first one that contains the name,
// or else the one that differs in the fewest letters, up to a third of the name's length plus one.
// It suits names of modules, which people shorten.
func Near(name string, known []string) string {
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

// NearFlag is Near for flags: what all of them end with does not count.
func NearFlag(flag string, known []string) string { return nearWith(Near, flagSuffix, flag, known) }

// NearestFlag is Nearest for flags, as NearFlag is Near.
func NearestFlag(flag string, known []string) string {
	return nearWith(Nearest, flagSuffix, flag, known)
}

// NearestMaintenance is Nearest for maintenance keys: what all of them end with does not count.
func NearestMaintenance(key string, known []string) string {
	return nearWith(Nearest, maintenanceSuffix, key, known)
}

func nearWith(near func(string, []string) string, suffix, key string, known []string) string {
	owners := make([]string, 0, len(known))
	for _, k := range known {
		owners = append(owners, strings.TrimSuffix(k, suffix))
	}
	if meant := near(strings.TrimSuffix(key, suffix), owners); meant != "" {
		return meant + suffix
	}
	return ""
}

// Nearest is Near for words of a fixed list, such as keys, commands and options, where a wrong
// proposal is worse than none: it returns the one that differs in case or in at most two letters,
// and in at most half of them, or "".
func Nearest(word string, known []string) string {
	best, least := "", 3
	for _, candidate := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d < least && 2*d <= len(candidate) {
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
