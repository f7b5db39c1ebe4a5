package supervisor

import (
	"log/slog"
	"slices"
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
	kept      sync.Map // by the ID of an actor, the *backlog of one that has crashed
}

// backlog is what an actor handles before anything else when it goes on: what it crashed
// over, and what came to hand meanwhile. Only the goroutine of its mailbox, and the
// supervisor while that one is suspended, touch it.
type backlog struct {
	waiting []keptMessage
	current *keptMessage // the one being handled
}

type keptMessage struct {
	*actor.MessageEnvelope
	crashed bool // the actor has, over this message
}

// A child may crash so often within so long before its restarts are spaced.
const (
	quickCrashes = 3
	quickTime    = time.Minute
)

// HandleFailure implements actor.SupervisorStrategy.
func (s *crashOnly) HandleFailure(system *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, stats *actor.RestartStatistics, reason, message any) {
	s.report(child, "an actor crashed and is restarted; please report this", reason)
	s.save(system, child, message, s.again)
	stats.Fail()
	if stats.NumberOfFailures(quickTime) <= quickCrashes {
		sup.RestartChildren(child)
		return
	}
	// The timer only posts the restart; a probe drops one that comes behind a stop.
	time.AfterFunc(firstDelay, func() { sup.RestartChildren(child) })
}

func (s *crashOnly) report(child *actor.PID, what string, reason any) {
	err, _ := asFailure(reason)
	s.log.Error(what, "actor", child.Id, "err", err, "stack", s.inspector.stack(child))
}

// save keeps the message that the child crashed over for a second attempt, when it may have
// one; else it is gone, and whoever waits for its answer must hear of it.
func (s *crashOnly) save(system *actor.ActorSystem, child *actor.PID, message any, again func(message any) bool) {
	value, _ := s.kept.LoadOrStore(child.Id, &backlog{})
	b := value.(*backlog) //nolint:forcetypeassert // nothing else is in there
	failed := keptMessage{MessageEnvelope: actor.WrapEnvelope(message)}
	late := b.current != nil
	if late { // the library names the message that came last
		failed, b.current = *b.current, nil
	}
	if !failed.crashed && again != nil && again(failed.Message) {
		failed.crashed = true
		if late {
			b.waiting = slices.Insert(b.waiting, 0, failed)
		} else {
			b.waiting = append(b.waiting, failed)
		}
		return
	}
	tellAsker(system, failed.Sender, child)
	if s.lost != nil {
		s.lost(system, child, failed.Message, failed.Sender)
	}
}

// handlingKept has an actor that crashed handle its backlog before anything else: as soon as
// it is restarted, or with the next message when it was not.
func (s *crashOnly) handlingKept(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, envelope *actor.MessageEnvelope) {
		value, crashed := s.kept.Load(ctx.Self().Id)
		if !crashed {
			if _, late := envelope.Message.(wakeUp); !late {
				next(ctx, envelope)
			}
			return
		}
		b := value.(*backlog) //nolint:forcetypeassert // nothing else is in there
		switch envelope.Message.(type) {
		case *actor.Restarting, *actor.Terminated, *actor.Stopping, *actor.Stopped: // it may not have started again
			next(ctx, envelope)
			return
		case *actor.Started:
			next(ctx, envelope)
		case wakeUp:
		default:
			b.waiting = append(b.waiting, keptMessage{MessageEnvelope: envelope})
		}
		for len(b.waiting) > 0 {
			b.current, b.waiting = &b.waiting[0], b.waiting[1:]
			next(ctx, b.current.MessageEnvelope)
		}
		s.kept.Delete(ctx.Self().Id)
	}
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
	s.report(child, "an actor crashed and goes on; please report this", reason)
	s.inspector.wentOn(child)
	s.save(system, child, message, func(message any) bool {
		_, ended := message.(*actor.Terminated) // of a child, which is sent only once
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
