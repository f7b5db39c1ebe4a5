package scenario

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// dispatcher runs each mailbox that has work in a goroutine, as the default one, and
// counts them.
type dispatcher struct {
	busy  atomic.Int64  // mailboxes that have messages
	turns atomic.Uint64 // how often a mailbox got one while it had none
}

// Schedule implements actor.Dispatcher. It counts in the goroutine of the sender, before that goes
// on, so that there is no moment at which a message was sent and no mailbox is busy.
func (d *dispatcher) Schedule(turn func()) {
	d.busy.Add(1)
	d.turns.Add(1)
	go func() {
		defer d.busy.Add(-1)
		turn()
	}()
}

// Throughput implements actor.Dispatcher. It is that of the library's own dispatcher.
func (d *dispatcher) Throughput() int { return 300 }

// quiet is how long nothing must happen until runs that are in progress, but wait for
// something that a failed task holds up, count as idle. Without such runs, idle is seen at once, so
// only tests with a failure take so long. On a busy machine a run may just wait for a processor: so do the polls, of
// which there must have been so many.
const (
	quiet      = 500 * time.Millisecond
	quietPolls = 250
)

// settle returns when the operator has nothing to do until something happens:
// no mailbox has work, no hook, request or action of Helm is in progress, and every run waits for its next
// attempt. The operator has no counter for that, so settle polls: it must find all three at one
// moment, and that nothing has changed since the poll before. The error, after the limit for a
// step, names what is still in progress.
func (p *play) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.options.StepTimeout)
	defer cancel()
	activity := func() [2]uint64 { return [2]uint64{p.dispatcher.turns.Load(), p.recorder.done.Load()} } // changes whenever anything happens
	isIdle := func() bool {
		return p.dispatcher.busy.Load() == 0 && p.recorder.underWay.Load() == 0 && !p.Cluster.Server.Busy()
	}
	changed, polls := time.Now(), 0
	for last := activity(); ; polls++ {
		idle := isIdle()
		runs := len(working(p.Engine))
		now := activity()
		if now != last || !idle {
			last, changed, polls = now, time.Now(), 0
		}
		// A mailbox may have got work while runs were counted.
		still := func() bool { return isIdle() && activity() == now }
		if idle && now == last && (runs == 0 && time.Since(changed) > 0 && still() || time.Since(changed) > quiet && polls > quietPolls) {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the operator is not idle after %s:\n  %s", p.options.StepTimeout, strings.Join(working(p.Engine), "\n  "))
		}
	}
}

// working are the runs that are in progress, and the modules that are about to be healed: the
// healer waits a moment before it asks for a run, in which no mailbox has work.
func working(e *Engine) (list []string) {
	e.Visit(func(n *supervisor.Node) {
		if healer, ok := n.Status.(view.HealerStatus); ok {
			for _, module := range healer.Incomplete {
				list = append(list, n.Path+": objects of "+module+" are absent")
			}
		}
		if !strings.Contains(n.Path, "/run/") {
			return
		}
		status, _ := n.Status.(supervisor.RunStatus)
		if status.RetryAt.IsZero() {
			list = append(list, fmt.Sprintf("%s: %s", n.Path, status))
		}
	})
	return list
}
