package supervisor

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
)

// crashOnly restarts a child that panicked, at once and for ever. It serves all
// actors that are no runs: their handlers do no work that may fail, so a panic is a
// bug. The library's own default would stop the child silently at the eleventh.
type crashOnly struct {
	log       *slog.Logger
	inspector *Inspector
	lost      func(system *actor.ActorSystem, child *actor.PID, message any, sender *actor.PID)
}

// HandleFailure implements actor.SupervisorStrategy.
func (s *crashOnly) HandleFailure(system *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, message any) {
	err, _ := asFailure(reason)
	s.log.Error("an actor crashed and is restarted; please report this", "actor", child.Id, "err", err, "stack", s.inspector.stack(child))
	// The message that crashed the child is gone; whoever waits for its answer must hear of it.
	if s.lost != nil {
		_, body, sender := actor.UnwrapEnvelope(message)
		s.lost(system, child, body, sender)
	}
	sup.RestartChildren(child)
}
