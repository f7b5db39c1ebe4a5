package actors

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// allowedTurns is how often the same cause may occur in a chain before the chain counts as a loop:
// values that settle do so within a turn or two.
const allowedTurns = 3

// turns counts how often the last link of a chain stands in it.
func turns(c messages.Cause) int {
	n := 0
	for _, link := range c.Chain() {
		if link.Activation == c.Activation && link.Detail == c.Detail {
			n++
		}
	}
	return n
}

// loopDelay is how long a task must wait whose cause is part of a loop: 5 s, 10 s,
// 20 s, 30 s, 30 s …; 0 when it does not.
func loopDelay(c messages.Cause) time.Duration { return delayAfter(turns(c) - allowedTurns) }

// delayAfter is the delay of a loop that has gone over turns too many.
func delayAfter(over int) time.Duration {
	const enough = 10 // it is the longest by then
	delays := supervisor.Backoff()
	var d time.Duration
	for range min(over, enough) {
		d = delays.NextBackOff()
	}
	return d
}

// looping counts and reports a turn of a loop that is slowed down. owner is a module or
// messages.GlobalHooks; where is equal at each turn of the same loop, so that repetitions are
// logged at growing intervals.
func (p *program) looping(log *slog.Logger, owner, where string, c messages.Cause, in time.Duration) {
	p.Metrics.Converge.Looped(c)
	p.loops.turned(owner, c, in)
	p.notify(kube.Notice{Warning: true, Reason: "ValueLoop", Message: "Hooks run in a loop and are slowed down; one of them makes a change in each run: " + c.String()})
	if !p.told.due(where, time.Now()) {
		log.Debug("hooks still run in a loop", "in", in, "causes", chainText(c))
		return
	}
	log.Warn("hooks run in a loop: the following runs are slowed down; fix the hook that makes a change in each run", "in", in, "causes", chainText(c))
}

// circles are the last turns of loops that were slowed down, by owner.
type circles struct {
	turns supervisor.Shared[map[string]lastTurn]
}

type lastTurn struct {
	cause messages.Cause
	over  time.Time // when there is no such loop any more, unless it turns again
}

// turned notes a turn; the next one comes after in. Without another turn by then, and some slack,
// the loop is over.
func (l *circles) turned(owner string, c messages.Cause, in time.Duration) {
	now := time.Now()
	const slack = 30 * time.Second // for what runs in a turn
	l.turns.Change(func(before map[string]lastTurn) map[string]lastTurn {
		turns := maps.Clone(before)
		if turns == nil {
			turns = map[string]lastTurn{}
		}
		maps.DeleteFunc(turns, func(_ string, t lastTurn) bool { return now.After(t.over) })
		turns[owner] = lastTurn{c, now.Add(in + slack)}
		return turns
	})
}

// Loops says of each module, or messages.GlobalHooks, by which causes its hooks run in a loop now.
func (o *Operator) Loops() map[string]string {
	said := map[string]string{}
	for owner, t := range o.program.loops.turns.Get() {
		if time.Now().Before(t.over) {
			said[owner] = "hooks run in a loop and are slowed down; fix the first of these that makes a change in each run: " + chainText(t.cause)
		}
	}
	return said
}

// chainText shows the latest links of a chain.
func chainText(c messages.Cause) string {
	const shown = 6
	var links []string
	chain := c.Chain()
	for _, link := range chain[:min(shown, len(chain))] {
		links = append(links, link.String())
	}
	if more := len(chain) - shown; more > 0 {
		links = append(links, fmt.Sprintf("%d more", more))
	}
	return strings.Join(links, " ← ")
}

// delayedRun is a run of a module that waits because it is part of a loop. Any run that begins
// before serves it.
type delayedRun struct {
	program *program
	name    string // of the module
	log     *slog.Logger
	timer   *time.Timer
}

// runAgain queues a module run that the module's own hooks have caused. One that is
// part of a loop waits first, so that a loop is never a busy one; any run of the module
// that begins meanwhile serves it.
func (d *delayedRun) runAgain(ctx actor.Context, head bool, t messages.Task) {
	delay := loopDelay(t.Cause)
	if delay == 0 {
		d.program.enqueue(ctx, head, t)
		return
	}
	d.program.looping(d.log, d.name, "run of "+d.name, t.Cause, delay)
	d.queue(t, delay)
}

// tellUnstable reports a chart that renders differently from the same inputs, and queues the
// run that tries again when that was a reason to wait (H6).
func (d *delayedRun) tellUnstable(t messages.Task, o helm.Outcome) {
	if o.Unstable == "" {
		return
	}
	d.program.notify(kube.Notice{Warning: true, Reason: "UnstableRender", Message: fmt.Sprintf("module %s: the chart renders a different manifest each time from the same values: %s", d.name, o.Unstable)})
	if d.program.told.due("unstable "+d.name+" "+o.Unstable, time.Now()) {
		d.log.Warn("unstable render: the chart renders a different manifest each time from the same values; use values, or look up what was generated before, instead of using random values or the time", "where", o.Unstable, "revision", o.Revision)
	}
	again := d.program.task(d.name, messages.RunModule{}, messages.By(messages.ByChance, o.Unstable, t.Cause))
	if o.Again == 0 { // there is no reason to try again, so nothing waits; it counts all the same
		d.program.Metrics.Converge.Looped(again.Cause)
		return
	}
	d.program.looping(d.log, d.name, "render of "+d.name, again.Cause, o.Again)
	d.queue(again, o.Again)
}

// queue queues a run after a delay, in place of one that waits already.
func (d *delayedRun) queue(t messages.Task, in time.Duration) {
	d.stop()
	to := d.program.PID(queuePath + t.Queue)
	d.timer = time.AfterFunc(in, func() { d.program.Send(to, messages.Enqueue{Queue: t.Queue, Tasks: []messages.Task{t}}) })
}

func (d *delayedRun) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
