package testkit

import (
	"fmt"
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

// clear takes all traps away: a mistake in an actor that is stopping is not restarted, and
// is ended by the grace period only.
func (t *traps) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.laid)
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
