package actors

import (
	"log/slog"
	"slices"
)

// changePhase logs that an actor goes from one phase to another. One that is not drawn is a bug, but what
// leads to it has happened already: to refuse it would leave the actor in a phase in which it is not, and to
// crash would interrupt all modules, again after each start if the same inputs lead to it. So it is reported,
// and the actor goes on. Tests fail.
func changePhase[P ~string](log *slog.Logger, actor string, from, to P, drawn []P) {
	if !slices.Contains(drawn, to) {
		log.Error("bug: "+actor+" changes to a phase that is not allowed", "from", from, "to", to)
		return
	}
	log.Debug(actor+" changes phase", "from", from, "to", to)
}
