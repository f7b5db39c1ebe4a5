package supervisor_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/supervisor"
)

// Counters of a type of actors never fall, whatever happens to the actors.
func TestSummaries(t *testing.T) {
	onStage(t, func(s *stage) {
		first, second := s.spawn("first", silent), s.spawn("second", silent)
		owner, runs := s.owner("owner")
		s.do(owner, func(ctx actor.Context) { runs().Start(ctx, s.task("t1", failingFor(1))) })
		s.advance(3 * time.Second)
		kind := s.find("first").Type
		before := s.Inspector.Summaries()[kind]
		if before.Count[supervisor.Idle] != 2 || before.Messages != 0 {
			t.Errorf("two idle actors: %+v", before)
		}
		s.Actors.Root.Stop(first)
		s.advance(time.Second)
		between := s.Inspector.Summaries()[kind]
		if between.Count[supervisor.Idle] != 1 {
			t.Errorf("one is gone: %+v", between)
		}
		s.spawn("first", silent)
		s.Actors.Root.Stop(second)
		s.advance(time.Second)
		if after := s.Inspector.Summaries()[kind]; after.Count[supervisor.Idle] != 1 {
			t.Errorf("a namesake, and the other is gone: %+v", after)
		}
		s.advance(time.Minute)
		if runs, restarts := s.Inspector.Summaries()["worker"], s.Inspector.Restarts(); runs.Count[supervisor.Idle] != 0 || restarts != 1 {
			t.Errorf("a run that is gone: %+v, %d restarts", runs, restarts)
		}
	})
}

// An actor that works is busy, and what waits behind is counted.
func TestSummaryOfABusyActor(t *testing.T) {
	onStage(t, func(s *stage) {
		pid := s.spawn("worker", silent)
		s.Actors.Root.Send(pid, call{func(actor.Context) { time.Sleep(10 * time.Second) }})
		s.Actors.Root.Send(pid, "waits")
		s.advance(4 * time.Second)
		got := s.Inspector.Summaries()[s.find("worker").Type]
		if got.Count[supervisor.Busy] != 1 || got.Messages != 1 {
			t.Errorf("got %+v", got)
		}
		s.advance(time.Minute)
	})
}
