package supervisor

import (
	"log/slog"
	"sync"
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
	again     func(message any) bool
	kept      sync.Map // by the ID of an actor, what it handles again when it has started
	lost      func(system *actor.ActorSystem, child *actor.PID, message any, sender *actor.PID)
}

// A child may crash so often within so long before its restarts are spaced.
const (
	quickCrashes = 3
	quickTime    = time.Minute
)

// HandleFailure implements actor.SupervisorStrategy.
func (s *crashOnly) HandleFailure(system *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, stats *actor.RestartStatistics, reason, message any) {
	s.tell(system, child, "an actor crashed and is restarted; please report this", reason, message)
	stats.Fail()
	if stats.NumberOfFailures(quickTime) <= quickCrashes {
		sup.RestartChildren(child)
		return
	}
	// The timer only posts the restart; a probe drops one that comes behind a stop.
	time.AfterFunc(firstDelay, func() { sup.RestartChildren(child) })
}

// tell logs a crash, and sees to it that nobody waits for ever for what the message asks.
func (s *crashOnly) tell(system *actor.ActorSystem, child *actor.PID, what string, reason, message any) {
	err, _ := asFailure(reason)
	s.log.Error(what, "actor", child.Id, "err", err, "stack", s.inspector.stack(child))
	_, body, sender := actor.UnwrapEnvelope(message)
	if s.again != nil && s.again(body) {
		s.kept.Store(child.Id, actor.WrapEnvelope(message))
	}
	// Another message is gone; whoever waits for its answer must hear of it.
	tellAsker(system, sender, child)
	if s.lost != nil {
		s.lost(system, child, body, sender)
	}
}

// goOn has an actor that crashed handle once more what it crashed over, before anything
// else: as soon as it is restarted, or with the next message when it was not.
func (s *crashOnly) goOn(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, envelope *actor.MessageEnvelope) {
		switch envelope.Message.(type) {
		case *actor.Started:
			next(ctx, envelope)
			s.handleKept(ctx, next)
			return
		case *actor.Restarting, *actor.Terminated, *actor.Stopping, *actor.Stopped: // it may not have started again
		case wakeUp:
			s.handleKept(ctx, next)
			return
		default:
			s.handleKept(ctx, next)
		}
		next(ctx, envelope)
	}
}

// handleKept forgets the message first: a second crash over it must not hold others up.
func (s *crashOnly) handleKept(ctx actor.ReceiverContext, next actor.ReceiverFunc) {
	if kept, ok := s.kept.LoadAndDelete(ctx.Self().Id); ok {
		next(ctx, kept.(*actor.MessageEnvelope)) //nolint:forcetypeassert // nothing else is kept
	}
}

// rootOnly serves the root actor. A restart would stop its children, which are the whole
// program, and wait for the longest work of them; so it goes on with the state it has. One
// that could not even start has none.
type rootOnly struct{ *crashOnly }

// HandleFailure implements actor.SupervisorStrategy.
func (s *rootOnly) HandleFailure(system *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, stats *actor.RestartStatistics, reason, message any) {
	switch message.(type) {
	case *actor.Started, *actor.Restart:
		s.crashOnly.HandleFailure(system, sup, child, stats, reason, message)
		return
	}
	s.tell(system, child, "an actor crashed and goes on; please report this", reason, message)
	sup.ResumeChildren(child)
	system.Root.Send(child, wakeUp{}) // there may be no other message for a long time
}

// wakeUp has an actor handle what is kept for it; it never sees this message.
type wakeUp struct{}
