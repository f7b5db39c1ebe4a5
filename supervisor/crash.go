package supervisor

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// A panic in the handler of an actor that is no run is a bug of the program: its handlers do no work that
// may fail. What the handler has changed and sent by then is half of what it wanted, so nobody
// may go on with it. The process ends, and the next one begins with what lies outside of it.

// crashes ends the process at the first crash.
type crashes struct {
	log   *slog.Logger
	end   func()
	first sync.Once
}

// crashed is called in the goroutine of the actor, on whose stack still are the frames that panicked.
// So no other message is handled by it, and as few as possible by others.
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
