package shared

import (
	"fmt"
	"log/slog"
	"slices"
)

// Phases are the changes of phase that an actor may make: for each phase those that may follow it.
type Phases[P ~string] map[P][]P

// Change logs that an actor goes from one phase to another. One that is not drawn is a bug, but what
// leads to it has happened already: to refuse it would leave the actor in a phase in which it is not, and to
// crash would interrupt all modules, again after each start if the same inputs lead to it. So it is reported,
// and the actor goes on. Tests fail.
func (all Phases[P]) Change(log *slog.Logger, actor string, from, to P) {
	if !slices.Contains(all[from], to) {
		log.Error("bug: "+actor+" changes to a phase that is not allowed", "from", from, "to", to)
		return
	}
	log.Debug(actor+" changes phase", "from", from, "to", to)
}

// List returns the changes as "actor: from to to", sorted.
func (all Phases[P]) List(actor string) (list []string) {
	for from, next := range all {
		for _, to := range next {
			list = append(list, fmt.Sprintf("%s: %s to %s", actor, from, to))
		}
	}
	slices.Sort(list)
	return list
}
