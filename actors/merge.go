package actors

import (
	"slices"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// These limits bound what waits for one hook. It is one task, which later triggers join in order
// (C41), and it grows with what tenants do while the hook is slow or fails. Beyond the limits the
// events of a binding become one Synchronization, which shows all objects as they are then.
const (
	// maxTriggers counts triggers; maxWaiting is bytes of the objects and filter results in them.
	maxTriggers = 1000
	maxWaiting  = 8 << 20
)

func carriesTriggers(t messages.Task) bool {
	w, ok := t.Work.(messages.RunHook)
	return ok && (w.Binding == hooks.OnSchedule || w.Binding == hooks.OnKubernetes) && w.Carried() > 0
}

// mergeable reports whether two tasks can be one: they are for the same hook of the same owner,
// whatever its file is called, and have the same allowFailure (C43).
func mergeable(a, b messages.Task) bool {
	return carriesTriggers(a) && carriesTriggers(b) && a.Owner == b.Owner && a.Hook() == b.Hook() && a.AllowFailure == b.AllowFailure
}

// mergeIntoWaiting adds a task to those that wait, or adds its triggers to a waiting task of the
// same hook, which keeps its place. It returns the new list; the waiting tasks themselves may be
// changed, but never a message that another actor knows.
func (p *program) mergeIntoWaiting(waiting []messages.Task, t messages.Task) []messages.Task {
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
		all = work.WithResync(all, b)
	}
	for _, trigger := range w.Triggers {
		all = withTrigger(all, trigger)
	}
	all, dropped := work.Limited(all, maxTriggers, maxWaiting, work.Held)
	waiting[i].Work = all
	p.runs.Overflowed(waiting[i], dropped)
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
	case work.IsEvent(t) && slices.ContainsFunc(w.Resync, func(b messages.KubernetesBinding) bool { return b.Index == t.Index }):
		return w // the Synchronization has not begun: it will show the object as it is now, or newer
	}
	w.Triggers = append(w.Triggers, t)
	return w
}

// firstRun is what one run of a hook serves of a waiting task. In protocol v0 each trigger has
// a run of its own (C20); rest goes on waiting then.
func firstRun(t messages.Task) (now, rest messages.Task, more bool) {
	w, _ := t.Work.(messages.RunHook)
	if !carriesTriggers(t) || len(w.Triggers) < 2 || w.Triggers[0].Context.Type != "" {
		return t, messages.Task{}, false
	}
	now, rest = t, t
	later := w
	w.Triggers, later.Triggers = w.Triggers[:1:1], slices.Clip(w.Triggers[1:])
	later.Binding = later.Triggers[0].Binding
	now.Work, rest.Work = w, later
	return now, rest, true
}
