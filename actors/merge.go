package actors

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
)

// These limits bound what waits for one hook. It is one task, which later triggers join in order
// (C41), and it grows with what tenants do while the hook is slow or fails. Beyond the limits the
// events of a binding become one Synchronization, which shows all objects as they are then.
const (
	// maxTriggers counts triggers; MaxWaiting is bytes of the objects and filter results in them.
	maxTriggers = 1000
	maxWaiting  = 8 << 20
)

// carriesTriggers reports whether a task runs a hook for events or ticks, to which others can be added.
func carriesTriggers(t messages.Task) bool {
	w, ok := t.Work.(messages.RunHook)
	return ok && (w.Binding == hooks.OnSchedule || w.Binding == hooks.OnKubernetes) && w.Carried() > 0
}

// mergeable reports whether two tasks can be one: they are for the same hook of the same owner,
// whatever its file is called, and have the same allowFailure (C43).
func mergeable(a, b messages.Task) bool {
	return carriesTriggers(a) && carriesTriggers(b) && a.Owner == b.Owner && a.Hook() == b.Hook() && a.AllowFailure == b.AllowFailure
}

// MergeIntoWaiting adds a task to those that wait, or adds its triggers to a waiting task of the
// same hook, which keeps its place. It returns the new list; the waiting tasks themselves may be
// changed, but never a message that another actor knows.
func (p *program) MergeIntoWaiting(waiting []messages.Task, t messages.Task) []messages.Task {
	w, _ := t.Work.(messages.RunHook)
	i := slices.IndexFunc(waiting, func(other messages.Task) bool { return mergeable(other, t) })
	if i < 0 {
		if carriesTriggers(t) {
			w.Triggers = slices.Clip(w.Triggers) // the first append copies: others know this message
			t.Work = w
		}
		return append(waiting, t)
	}
	all, _ := waiting[i].Work.(messages.RunHook)
	for _, b := range w.Resync {
		all = withResync(all, b)
	}
	for _, trigger := range w.Triggers {
		all = withTrigger(all, trigger)
	}
	all, dropped := limited(all, maxTriggers, maxWaiting, held)
	waiting[i].Work = all
	p.Runs.Overflowed(waiting[i], dropped)
	return waiting
}

// withTrigger adds a trigger, unless something that waits already stands for it.
func withTrigger(w messages.RunHook, t messages.Trigger) messages.RunHook {
	same := func(o messages.Trigger) bool { return o.Binding == t.Binding && o.Index == t.Index }
	last := len(w.Triggers) - 1
	switch {
	case t.Binding == hooks.OnSchedule && slices.ContainsFunc(w.Triggers, same): // the ticks of one schedule are one
		return w
	case t.Context.Type == hooks.TypeGroup && last >= 0 && w.Triggers[last].Context.Type == hooks.TypeGroup && same(w.Triggers[last]): // C42
		return w
	case isEvent(t) && slices.ContainsFunc(w.Resync, func(b messages.KubernetesBinding) bool { return b.Index == t.Index }):
		return w // the Synchronization has not begun: it will show the object as it is now, or newer
	}
	w.Triggers = append(w.Triggers, t)
	return w
}

// Repeats reports whether the task that is added repeats one that has not ended yet, so
// that they do not pile up: a Synchronization whose hook fails (C15), and a purge that fails at each reload (E10).
func Repeats(added, other messages.Task) bool {
	switch a := added.Work.(type) {
	case messages.SynchronizeHook:
		o, ok := other.Work.(messages.SynchronizeHook)
		return ok && a.Again && added.Owner == other.Owner && o.Hook == a.Hook && slices.Equal(o.Bindings, a.Bindings)
	case messages.PurgeRelease:
		return other.Work == added.Work
	}
	return false
}

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
func loopDelay(c messages.Cause) time.Duration { return slowedDown(turns(c), 30*time.Second) }

// slowedDown is the delay of what was done a number of times: none for allowedTurns, then 5 s,
// and twice as long each time, up to longest.
func slowedDown(times int, longest time.Duration) (d time.Duration) {
	for range times - allowedTurns {
		if d = min(max(2*d, 5*time.Second), longest); d == longest {
			break
		}
	}
	return d
}

// Looping counts and reports a turn of a loop that is slowed down. With the attribute err, repetitions are logged at growing
// intervals.
func (p *program) Looping(log *slog.Logger, c messages.Cause, in time.Duration) {
	p.Metrics.Loops.WithLabelValues(activation(c)).Inc()
	p.Notify(kube.Notice{Warning: true, Reason: "ValueLoop", Message: "Hooks run in a loop and are slowed down; one of them makes a change in each run: " + c.String()})
	log.Warn("hooks run in a loop: the following runs are slowed down; fix the hook that makes a change in each run", "in", in, "err", chainText(c))
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
