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
	return ok && (w.Binding == hooks.OnSchedule || w.Binding == hooks.OnKubernetes)
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
		return append(waiting, t)
	}
	all, _ := waiting[i].Work.(messages.RunHook)
	for _, trigger := range w.Triggers {
		all = withTrigger(all, trigger)
	}
	bytes := 0
	for _, trigger := range all.Triggers {
		bytes += held(trigger)
	}
	if len(all.Triggers) > maxTriggers || bytes > maxWaiting {
		all = p.Runs.relieved(waiting[i], all)
	}
	waiting[i].Work = all
	return waiting
}

// held is what a trigger holds in memory while it waits, in bytes. Snapshots are not among it: they
// are taken when the hook runs.
func held(t messages.Trigger) int { return len(t.Context.Object) + len(t.Context.FilterResult) }

// relieved is w with less: a Synchronization in place of the events of each binding that has several, which shows all
// objects as they are when the hook runs, and of each group the last trigger, which says as much as all of them (C42).
// Protocol v0 has no Synchronization: the older half goes. A single event and ticks stay, so there may still be too
// much. What was dropped is reported (P5). Actors and runs call it; messages share triggers, so it copies.
func (s *Shared) relieved(task messages.Task, w messages.RunHook) messages.RunHook {
	events, last, shown := map[int]int{}, map[string]int{}, map[int]bool{}
	for i, t := range w.Triggers {
		if last[t.Context.GroupName] = i; isEvent(t) {
			events[t.Index]++
		}
	}
	var kept []messages.Trigger
	for i, t := range w.Triggers {
		switch {
		case isEvent(t) && events[t.Index] > 1:
			if !shown[t.Index] {
				shown[t.Index] = true
				t.Context = hooks.Context{Binding: t.Context.Binding, Type: hooks.TypeSynchronization}
				kept = append(kept, t)
			}
		case t.Context.Type == hooks.TypeGroup && last[t.Context.GroupName] != i:
		case t.Context.Resource != nil && i < len(w.Triggers)/2:
		default:
			kept = append(kept, t)
		}
	}
	if dropped := len(w.Triggers) - len(kept); dropped > 0 {
		const what = "too many events wait for a hook: Synchronizations replace them; in protocol v0 the oldest are lost"
		s.Metrics.Overflows.WithLabelValues(task.Queue, w.Hook).Inc()
		s.Log.Warn(what, "owner", task.Owner, "hook", w.Hook, "queue", task.Queue, "events", dropped)
		s.notify(kube.Notice{Warning: true, Reason: "HookOverflow", Message: fmt.Sprintf("hook %s, queue %s: %s", w.Hook, task.Queue, what)})
	}
	w.Triggers = kept
	return w
}

// isEvent reports whether a trigger is a change for which a Synchronization can stand. Events of a
// group are none, because the last of them says as much; those of protocol v0 have no type.
func isEvent(t messages.Trigger) bool { return t.Context.Type == hooks.TypeEvent }

// withTrigger adds a trigger, unless something that waits already stands for it.
func withTrigger(w messages.RunHook, t messages.Trigger) messages.RunHook {
	same := func(o messages.Trigger) bool { return o.Binding == t.Binding && o.Index == t.Index }
	last := len(w.Triggers) - 1
	switch {
	case t.Binding == hooks.OnSchedule && slices.ContainsFunc(w.Triggers, same): // the ticks of one schedule are one
		return w
	case t.Context.Type == hooks.TypeGroup && last >= 0 && w.Triggers[last].Context.Type == hooks.TypeGroup && same(w.Triggers[last]): // C42
		return w
	case isEvent(t) && slices.ContainsFunc(w.Triggers, func(o messages.Trigger) bool { return same(o) && o.Context.Type == hooks.TypeSynchronization }):
		return w // the Synchronization has not begun: it will show the object as it is now, or newer
	}
	w.Triggers = append(slices.Clip(w.Triggers), t) // a copy: others know this message
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
