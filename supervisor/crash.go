package supervisor

import (
	"log/slog"
	"sync"
	"sync/atomic"
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
	lost      func(system *actor.ActorSystem, child *actor.PID, message any, sender *actor.PID)
	// By the ID of an actor: what it crashed over and handles again as soon as it goes on,
	// and what it is handling again.
	kept, retried sync.Map
}

// A child may crash so often within so long before its restarts are spaced.
const (
	quickCrashes = 3
	quickTime    = time.Minute
)

// HandleFailure implements actor.SupervisorStrategy.
func (s *crashOnly) HandleFailure(system *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, stats *actor.RestartStatistics, reason, message any) {
	s.tell(child, "an actor crashed and is restarted; please report this", reason)
	s.save(system, child, message, s.again)
	stats.Fail()
	if stats.NumberOfFailures(quickTime) <= quickCrashes {
		sup.RestartChildren(child)
		return
	}
	// The timer only posts the restart; a probe drops one that comes behind a stop.
	time.AfterFunc(firstDelay, func() { sup.RestartChildren(child) })
}

func (s *crashOnly) tell(child *actor.PID, what string, reason any) {
	err, _ := asFailure(reason)
	s.log.Error(what, "actor", child.Id, "err", err, "stack", s.inspector.stack(child))
}

// save keeps the message that the child crashed over, when it may be handled again and was
// not; else it is gone, and whoever waits for its answer must hear of it.
func (s *crashOnly) save(system *actor.ActorSystem, child *actor.PID, message any, again func(message any) bool) {
	envelope := actor.WrapEnvelope(message)
	if retried, ok := s.retried.LoadAndDelete(child.Id); ok { // the library names what came last
		envelope = retried.(*actor.MessageEnvelope) //nolint:forcetypeassert // nothing else is in there
	} else if again != nil && again(envelope.Message) {
		s.kept.Store(child.Id, envelope)
		return
	}
	tellAsker(system, envelope.Sender, child)
	if s.lost != nil {
		s.lost(system, child, envelope.Message, envelope.Sender)
	}
}

// handlingKept has an actor that crashed handle once more what it crashed over, before
// anything else: as soon as it is restarted, or with the next message when it was not.
func (s *crashOnly) handlingKept(next actor.ReceiverFunc) actor.ReceiverFunc {
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
			if _, kept := s.kept.Load(ctx.Self().Id); kept {
				s.handleBefore(ctx, next, envelope)
			}
		}
		next(ctx, envelope)
	}
}

// handleKept forgets the message first: a second crash over it must not hold others up.
func (s *crashOnly) handleKept(ctx actor.ReceiverContext, next actor.ReceiverFunc) {
	id := ctx.Self().Id
	kept, ok := s.kept.LoadAndDelete(id)
	if !ok {
		return
	}
	s.retried.Store(id, kept)
	next(ctx, kept.(*actor.MessageEnvelope)) //nolint:forcetypeassert // nothing else is in there
	s.retried.Delete(id)
}

// handleBefore is handleKept when another message is in hand already; it is kept itself
// should the first one crash the actor again.
func (s *crashOnly) handleBefore(ctx actor.ReceiverContext, next actor.ReceiverFunc, waiting *actor.MessageEnvelope) {
	id := ctx.Self().Id
	kept, _ := s.kept.Swap(id, waiting)
	s.retried.Store(id, kept)
	next(ctx, kept.(*actor.MessageEnvelope)) //nolint:forcetypeassert // nothing else is in there
	s.retried.Delete(id)
	s.kept.Delete(id)
}

// rootOnly serves the root actor. A restart would stop its children, which are the whole
// program, and wait for the longest work of them; so it goes on with the state it has. One
// that could not even start has none.
type rootOnly struct {
	*crashOnly
	started atomic.Bool
}

// HandleFailure implements actor.SupervisorStrategy.
func (s *rootOnly) HandleFailure(system *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, stats *actor.RestartStatistics, reason, message any) {
	if !s.started.Load() {
		s.crashOnly.HandleFailure(system, sup, child, stats, reason, message)
		return
	}
	s.tell(child, "an actor crashed and goes on; please report this", reason)
	s.inspector.wentOn(child)
	s.save(system, child, message, func(message any) bool {
		_, ended := message.(*actor.Terminated) // of a child, which nobody says again
		return ended || s.again != nil && s.again(message)
	})
	sup.ResumeChildren(child)
	system.Root.Send(child, wakeUp{}) // there may be no other message for a long time
}

// noteStart notes that the actor has started.
func (s *rootOnly) noteStart(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, envelope *actor.MessageEnvelope) {
		next(ctx, envelope)
		if _, ok := envelope.Message.(*actor.Started); ok {
			s.started.Store(true)
		}
	}
}

// wakeUp has an actor handle what is kept for it; it never sees this message.
type wakeUp struct{}
