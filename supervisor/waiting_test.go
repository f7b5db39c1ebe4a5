package supervisor_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// What waits behind a message in work is counted, by the type of the actor; an actor that is gone has no part in it.
func TestWaiting(t *testing.T) {
	onStage(t, func(s *stage) {
		pid := s.spawn("busy", silent)
		const kind = "function"
		s.Actors.Root.Send(pid, call{func(actor.Context) { time.Sleep(10 * time.Second) }})
		s.Actors.Root.Send(pid, "waits")
		s.advance(4 * time.Second)
		if n := s.Inspector.Waiting()[kind]; n != 1 {
			t.Errorf("%d messages wait, want 1", n)
		}
		s.advance(time.Minute)
		s.Actors.Root.Stop(pid)
		s.advance(time.Second)
		if n, known := s.Inspector.Waiting()[kind]; known {
			t.Errorf("%d messages wait for an actor that is gone", n)
		}
	})
}
