package shared

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// AllowedTurns is how often the same cause may occur in a chain before the chain counts as a loop:
// values that settle do so within a turn or two.
const AllowedTurns = 3

// Turns counts how often the last link of a chain stands in it.
func Turns(c messages.Cause) int {
	n := 0
	for _, link := range c.Chain() {
		if link.Activation == c.Activation && link.Detail == c.Detail {
			n++
		}
	}
	return n
}

// LoopDelay is how long a task must wait whose cause is part of a loop: 5 s, 10 s,
// 20 s, 30 s, 30 s …; 0 when it does not.
func LoopDelay(c messages.Cause) (d time.Duration) {
	const enough = 10 // it is the longest by then
	delays := supervisor.Backoff()
	for range min(Turns(c)-AllowedTurns, enough) {
		d = delays.NextBackOff()
	}
	return d
}

// Looping counts and reports a turn of a loop that is slowed down. owner is a module or
// messages.GlobalHooks. With the attribute err, repetitions are logged at growing intervals.
func (p *Program) Looping(log *slog.Logger, owner string, c messages.Cause, in time.Duration) {
	p.Metrics.Converge.Looped(c)
	p.Loops.turned(owner, c, in)
	p.Notify(kube.Notice{Warning: true, Reason: "ValueLoop", Message: "Hooks run in a loop and are slowed down; one of them makes a change in each run: " + c.String()})
	log.Warn("hooks run in a loop: the following runs are slowed down; fix the hook that makes a change in each run", "in", in, "err", chainText(c))
}

// Loops are the last turns of loops that were slowed down, by owner.
type Loops struct {
	turns supervisor.Shared[map[string]lastTurn]
}

type lastTurn struct {
	cause messages.Cause
	over  time.Time // when there is no such loop any more, unless it turns again
}

// turned notes a turn; the next one comes after in. Without another turn by then, and some slack,
// the loop is over.
func (l *Loops) turned(owner string, c messages.Cause, in time.Duration) {
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

// Said says of each owner by which causes its hooks run in a loop now.
func (l *Loops) Said() map[string]string {
	said := map[string]string{}
	for owner, t := range l.turns.Get() {
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

// SlowedDown is the delay of what was done a number of times: none for AllowedTurns, then first,
// and twice as long each time, up to longest.
func SlowedDown(times int, first, longest time.Duration) time.Duration {
	over := times - AllowedTurns
	if over <= 0 {
		return 0
	}
	d := first
	for range over - 1 {
		if d *= 2; d >= longest {
			return longest
		}
	}
	return min(d, longest)
}
