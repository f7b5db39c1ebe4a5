package match

import (
	"fmt"
	"slices"
	"strings"
)

// Wanted is an expected run of a hook, or call of a stand-in.
type Wanted[G any] interface {
	String() string // for messages
	Exactly() *int  // exactly so many; nil: one, if there are more, too
	// Unlike lists how one differs from what is wanted; isIt is false when it is another one
	// altogether.
	Unlike(got G) (list []string, isIt bool)
}

// Unmatched finds for each entry runs or calls that are like it. An entry without times takes one,
// so that two equal entries want two; one with times takes all that are like it. Entries choose in
// their order and the order of runs does not matter, so a narrow entry belongs before a wide one.
// If none is like an entry, the problem shows the differences of the one that has the fewest.
func Unmatched[G fmt.Stringer, W Wanted[G]](want []W, got []G, what string) (problems []string) {
	left := slices.Clone(got)
	for i, w := range want {
		place := fmt.Sprintf("[%d] %s", i, w)
		var nearest []string
		matched := 0
		for k := 0; k < len(left); k++ {
			differences, isIt := w.Unlike(left[k])
			if !isIt {
				continue
			}
			if len(differences) > 0 {
				if nearest == nil || len(differences) < len(nearest) {
					nearest = differences
				}
				continue
			}
			matched++
			left = slices.Delete(left, k, k+1)
			k--
			if w.Exactly() == nil {
				break
			}
		}
		switch times := w.Exactly(); {
		case times != nil && matched != *times:
			problems = append(problems, fmt.Sprintf("%s: there must be %d such %ss, there are %d; %s", place, *times, what, matched, were(got)))
		case times == nil && matched == 0 && nearest != nil:
			problems = append(problems, fmt.Sprintf("%s: the most similar %s differs:\n    %s", place, what, strings.Join(nearest, "\n    ")))
		case times == nil && matched == 0:
			problems = append(problems, fmt.Sprintf("%s: there is no such %s; %s", place, what, were(got)))
		}
	}
	return problems
}

// were lists all runs or calls, those that other entries have taken, too.
func were[G fmt.Stringer](got []G) string {
	if len(got) == 0 {
		return "there was none"
	}
	text := "there were:"
	for _, g := range got {
		text += "\n    " + g.String()
	}
	return text
}
