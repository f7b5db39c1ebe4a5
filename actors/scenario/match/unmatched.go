package match

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Happened is a run of a hook, or a call of a stand-in.
type Happened interface {
	String() string
	// Unlike lists how it differs from what is wanted; isIt is false when it is another one altogether.
	Unlike(want map[string]any) (list []string, isIt bool)
}

// Unmatched finds for each entry runs of hooks, or calls of stand-ins, that are like it. An entry without times takes
// one, so that two equal entries want two; one with times takes all that are like it. Entries choose in their order
// and the order of runs does not matter, so a narrow entry belongs before a wide one. If none is like an entry, the
// problem shows the differences of the one that has the fewest.
func Unmatched[G Happened](want []map[string]any, got []G, what string) (problems []string) {
	left := slices.Clone(got)
	for i, w := range want {
		times, exactly := number(w["times"])
		w = maps.Clone(w)
		delete(w, "times")
		place := fmt.Sprintf("[%d] %s", i, Short(w))
		var nearest []string
		matched := 0
		left = slices.DeleteFunc(left, func(g G) bool {
			differences, isIt := g.Unlike(w)
			switch {
			case !isIt || matched > 0 && !exactly:
				return false
			case len(differences) > 0:
				if nearest == nil || len(differences) < len(nearest) {
					nearest = differences
				}
				return false
			}
			matched++
			return true
		})
		switch {
		case exactly && matched != int(times):
			text := fmt.Sprintf("%s: there must be %v such %ss, there are %d; ", place, times, what, matched)
			problems = append(problems, text+were(got))
		case exactly || matched > 0:
		case nearest != nil:
			problems = append(problems, fmt.Sprintf("%s: the most similar %s differs:\n    %s", place, what, strings.Join(nearest, "\n    ")))
		default:
			problems = append(problems, fmt.Sprintf("%s: there is no such %s; %s", place, what, were(got)))
		}
	}
	return problems
}

// were lists all runs or calls, those that other entries have taken, too.
func were[G Happened](got []G) string {
	if len(got) == 0 {
		return "there was none"
	}
	text := "there were:"
	for _, g := range got {
		text += "\n    " + g.String()
	}
	return text
}
