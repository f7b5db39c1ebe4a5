package testkit

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// crashes make an actor panic over a message, as a bug in its handler would: at its beginning, when
// nothing has changed yet, or at its end, when everything has. The operator ends with that, as at a
// kill (supervisor/crash.go). Each point is used once.
type crashes struct {
	mu     sync.Mutex
	points map[crashPoint]bool
}

// crashPoint is an actor by its path below the root, the type of a message, and whether the
// panic follows the handling of the message. The actor * is any.
type crashPoint struct {
	actor, message string
	after          bool
}

// stepCrash adds a point: ACTOR over MESSAGE, or ACTOR after MESSAGE.
func stepCrash(p *player, rest string) error {
	words := strings.Fields(rest)
	if len(words) != 3 || words[1] != "over" && words[1] != "after" {
		return errors.New("it is neither 'ACTOR over MESSAGE' nor 'ACTOR after MESSAGE'")
	}
	p.crashes.mu.Lock()
	defer p.crashes.mu.Unlock()
	p.crashes.points[crashPoint{strings.TrimPrefix(words[0], "root"), words[2], words[1] == "after"}] = true
	return nil
}

// unused lists the points that no message has reached: a script with one proves less than it states.
func (c *crashes) unused() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := range c.points {
		list = append(list, fmt.Sprintf("nothing crashed %q over %s: no such message was sent", at.actor, at.message))
	}
	return list
}

// observe is called before each message is handled, and the function that it returns afterwards.
func (c *crashes) observe(receiver *actor.PID, message any) (handled func()) {
	c.mu.Lock()
	none := len(c.points) == 0 // most plays: what follows costs more
	c.mu.Unlock()
	if none {
		return func() {}
	}
	_, path, _ := strings.Cut(receiver.Id, "/")
	at := crashPoint{actor: path, message: messageName(message)}
	c.crash(at)
	at.after = true
	return func() { c.crash(at) }
}

// messageName is the type of a message without its package.
func messageName(message any) string {
	name := fmt.Sprintf("%T", message)
	return name[strings.LastIndex(name, ".")+1:]
}

// crash panics, in the goroutine of the actor, if there is this point for it, or for any actor.
func (c *crashes) crash(at crashPoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, who := range []string{at.actor, "*"} {
		if at.actor = who; c.points[at] {
			delete(c.points, at)
			panic("crash over " + at.message)
		}
	}
}
