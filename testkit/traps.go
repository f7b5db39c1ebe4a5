package testkit

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// traps make actors panic over a message, as a mistake in its handler would: at its beginning,
// when nothing has changed yet, or at its end, when everything has. What is handled again after a crash falls
// into the trap again when that is laid for more than once.
type traps struct {
	witness *witness
	mu      sync.Mutex
	laid    map[trap]int // how often
	idle    []trap       // were taken away before they sprang
}

// trap is an actor by its path below the root, the type of a message, and whether the
// mistake comes when the message has been handled.
type trap struct {
	actor, message string
	after          bool
}

func newTraps(w *witness) *traps { return &traps{witness: w, laid: map[trap]int{}} }

func (t *traps) lay(at trap, times int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.laid[at] = times
}

// clear takes all traps away but those of the root: another actor that is stopping is not
// restarted after a mistake, and is ended by the grace period only.
func (t *traps) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.laid, func(at trap, times int) bool {
		if at.actor != "" && times > 0 {
			t.idle = append(t.idle, at)
		}
		return at.actor != ""
	})
}

// unsprung lists the traps that were not used: a script with one proves less than it says.
func (t *traps) unsprung() (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at, times := range t.laid {
		if times > 0 {
			t.idle = append(t.idle, at)
		}
	}
	for _, at := range t.idle {
		list = append(list, fmt.Sprintf("nothing crashed %q over %s: no such message came", at.actor, at.message))
	}
	return list
}

// observe is called before each message is handled, and what it returns afterwards.
func (t *traps) observe(receiver *actor.PID, message any) (handled func()) {
	_, path, _ := strings.Cut(receiver.Id, "/")
	name := fmt.Sprintf("%T", message)
	at := trap{actor: path, message: name[strings.LastIndex(name, ".")+1:]}
	t.spring(at)
	at.after = true
	return func() { t.spring(at) }
}

func (t *traps) spring(at trap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.laid[at] == 0 {
		return
	}
	t.laid[at]--
	t.witness.note("crash", strings.TrimPrefix(at.actor, "module/"))
	panic("crash over " + at.message)
}
