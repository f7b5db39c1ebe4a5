package shared

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
	// MaxTriggers counts triggers; MaxWaiting is bytes of the objects and filter results in them.
	MaxTriggers = 1000
	MaxWaiting  = 8 << 20
)

// CarriesTriggers reports whether a task runs a hook for events or ticks, to which others can be added.
func CarriesTriggers(t messages.Task) bool {
	w, ok := t.Work.(messages.RunHook)
	return ok && (w.Binding == hooks.OnSchedule || w.Binding == hooks.OnKubernetes) && w.Carried() > 0
}

// Mergeable reports whether two tasks can be one: they are for the same hook of the same owner,
// whatever its file is called, and have the same allowFailure (C43).
func Mergeable(a, b messages.Task) bool {
	return CarriesTriggers(a) && CarriesTriggers(b) && a.Owner == b.Owner && a.Hook() == b.Hook() && a.AllowFailure == b.AllowFailure
}

// MergeIntoWaiting adds a task to those that wait, or adds its triggers to a waiting task of the
// same hook, which keeps its place. It returns the new list; the waiting tasks themselves may be
// changed, but never a message that another actor knows.
func (p *Program) MergeIntoWaiting(waiting []messages.Task, t messages.Task) []messages.Task {
	w, _ := t.Work.(messages.RunHook)
	i := slices.IndexFunc(waiting, func(other messages.Task) bool { return Mergeable(other, t) })
	if i < 0 {
		if CarriesTriggers(t) {
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
	all, dropped := work.Limited(all, MaxTriggers, MaxWaiting, work.Held)
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
	case work.IsEvent(t) && slices.ContainsFunc(w.Resync, func(b messages.KubernetesBinding) bool { return b.Index == t.Index }):
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
