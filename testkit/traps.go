package testkit

import (
	"fmt"
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// traps make actors panic over a message, as a mistake in its handler would: whatever the
// message should have changed stays as it was. What is handled again after a crash falls
// into the trap again when that is laid for more than once.
type traps struct {
	witness *witness
	mu      sync.Mutex
	laid    map[trap]int // how often
}

// trap is an actor by its path below the root, and the type of a message.
type trap struct{ actor, message string }

func newTraps(w *witness) *traps { return &traps{witness: w, laid: map[trap]int{}} }

func (t *traps) lay(path, message string, times int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.laid[trap{path, message}] = times
}

// clear takes all traps away: a mistake in an actor that is stopping is not restarted, and
// is ended by the grace period only.
func (t *traps) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.laid)
}

// observe is called before each message is handled.
func (t *traps) observe(receiver *actor.PID, message any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.laid) == 0 {
		return
	}
	_, path, _ := strings.Cut(receiver.Id, "/")
	name := fmt.Sprintf("%T", message)
	caught := trap{path, name[strings.LastIndex(name, ".")+1:]}
	if t.laid[caught] > 0 {
		t.laid[caught]--
		t.witness.note("crash", strings.TrimPrefix(path, "module/"))
		panic("crash over " + caught.message)
	}
}
