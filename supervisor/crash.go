package supervisor

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// crashes ends the process at the first crash of an actor.
//
// A panic in the handler of an actor that is no run is a bug of the program: its handlers do no
// work that may fail. The handler has changed and sent only a part of what it should have, so the
// actor cannot continue. The process ends, and the next one starts from the state of the cluster.
type crashes struct {
	log   *slog.Logger
	end   func()
	first sync.Once
}

// crashed runs in the goroutine of the actor, with the frames that panicked still on its stack. So
// the actor handles no other message, and other actors handle as few as possible.
func (c *crashes) crashed(who *actor.PID, message, reason any, stack string) {
	err, _ := asFailure(reason)
	c.first.Do(func() {
		c.log.Error("actor crashed: the process ends; please report this", "actor", who.Id, "message", fmt.Sprintf("%T", actor.UnwrapEnvelopeMessage(message)), "err", err, "stack", stack)
		if c.end == nil {
			panic(reason)
		}
		c.end()
	})
}
