package supervisor

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// crashOnly restarts a child that panicked, at once and for ever; one that crashes
// quickly again and again, for example while it starts, waits before it is restarted. It
// serves all actors that are no runs: their handlers do no work that may fail, so a panic
// is a bug. The library's own default would stop the child silently at the eleventh.
type crashOnly struct {
	log       *slog.Logger
	inspector *Inspector
	lost      func(system *actor.ActorSystem, child *actor.PID, message any, sender *actor.PID)
}

// A child may crash so often within so long before its restarts are spaced.
const (
	quickCrashes = 3
	quickTime    = time.Minute
)

// HandleFailure implements actor.SupervisorStrategy.
func (s *crashOnly) HandleFailure(system *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, stats *actor.RestartStatistics, reason, message any) {
	err, _ := asFailure(reason)
	s.log.Error("an actor crashed and is restarted; please report this", "actor", child.Id, "err", err, "stack", s.inspector.stack(child))
	// The message that crashed the child is gone; whoever waits for its answer must hear of it.
	_, body, sender := actor.UnwrapEnvelope(message)
	tellAsker(system, sender, child)
	if s.lost != nil {
		s.lost(system, child, body, sender)
	}
	stats.Fail()
	if stats.NumberOfFailures(quickTime) <= quickCrashes {
		sup.RestartChildren(child)
		return
	}
	// The timer only posts the restart; a probe drops one that comes behind a stop.
	time.AfterFunc(firstDelay, func() { sup.RestartChildren(child) })
}
