package testkit

import (
	"fmt"
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// traps make an actor panic over a message, as a bug in its handler would: at its beginning, when
// nothing has changed yet, or at its end, when everything has. The operator ends with that, as at a
// kill (supervisor/crash.go). Each trap is used once.
type traps struct {
	mu   sync.Mutex
	laid map[trap]bool
}

// trap is an actor by its path below the root, the type of a message, and whether the
// mistake comes when the message has been handled. The actor * is any.
type trap struct {
	actor, message string
	after          bool
}

// parseTrap reads ACTOR over MESSAGE, or ACTOR after MESSAGE.
func parseTrap(text string) (at trap, err error) {
	words := strings.Fields(text)
	const parts = 3
	if len(words) != parts || words[1] != "over" && words[1] != "after" {
		return at, fmt.Errorf("%q is neither 'ACTOR over MESSAGE' nor 'ACTOR after MESSAGE'", text)
	}
	return trap{strings.TrimPrefix(words[0], "root"), words[2], words[1] == "after"}, nil
}

// lay makes a trap ready. One that is the same as another counts once.
func (t *traps) lay(at trap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.laid[at] = true
}

// unsprung lists the traps that were not used: a script with one proves less than it says.
func (t *traps) unsprung() (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at := range t.laid {
		list = append(list, fmt.Sprintf("nothing crashed %q over %s: no such message was sent", at.actor, at.message))
	}
	return list
}

// observe is called before each message is handled, and what it returns afterwards.
func (t *traps) observe(receiver *actor.PID, message any) (handled func()) {
	_, path, _ := strings.Cut(receiver.Id, "/")
	at := trap{actor: path, message: messageName(message)}
	t.spring(at)
	at.after = true
	return func() { t.spring(at) }
}

// messageName is the type of a message without its package.
func messageName(message any) string {
	name := fmt.Sprintf("%T", message)
	return name[strings.LastIndex(name, ".")+1:]
}

// spring panics, in the goroutine of the actor, if there is a trap for it, or for any actor.
func (t *traps) spring(at trap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, who := range []string{at.actor, "*"} {
		if at.actor = who; t.laid[at] {
			delete(t.laid, at)
			panic("crash over " + at.message)
		}
	}
}
