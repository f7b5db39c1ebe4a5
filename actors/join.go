package actors

import (
	"fmt"
	"slices"

	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
)

// What waits for a hook is one task, which later triggers join in order (C41). It grows with
// what tenants do while the hook is slow or fails, so it has limits. Beyond them the events of
// a binding become one Synchronization of it, which shows all objects as they are then.
const (
	// maxTriggers and maxWaiting bound what waits: triggers, and bytes of the objects and
	// filter results in them.
	maxTriggers = 1000
	maxWaiting  = 8 << 20
	// maxContexts bounds the bytes of BINDING_CONTEXT_PATH when there are several contexts,
	// each of which repeats the snapshots it asked for.
	maxContexts = 32 << 20
)

// overflow is what was dropped to keep within the limits.
type overflow struct {
	binding string
	events  int
	lost    bool // nothing stands for them
}

// joins reports whether a task takes part in joining: only what schedules and Kubernetes
// events trigger does.
func joins(t messages.Task) bool {
	w, ok := t.Work.(messages.RunHook)
	return ok && (w.Binding == hooks.OnSchedule || w.Binding == hooks.OnKubernetes) && w.Carried() > 0
}

// joinable reports whether two tasks can be one: they are for the same hook of the same owner,
// whatever its file is called, and have the same allowFailure (C43).
func joinable(a, b messages.Task) bool {
	return joins(a) && joins(b) && a.Owner == b.Owner && a.Hook() == b.Hook() && a.AllowFailure == b.AllowFailure
}

// wait adds a task to those that wait, or lets one of them, which keeps its place, carry the
// triggers of it as well.
func (p *program) wait(waiting []messages.Task, t messages.Task) []messages.Task {
	w, _ := t.Work.(messages.RunHook)
	i := slices.IndexFunc(waiting, func(other messages.Task) bool { return joinable(other, t) })
	if i < 0 {
		if joins(t) {
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
	p.overflowed(waiting[i], dropped)
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

// withResync drops the events of a binding; a Synchronization stands for them.
func withResync(w messages.RunHook, b messages.KubernetesBinding) messages.RunHook {
	if !slices.Contains(w.Resync, b) {
		w.Resync = append(slices.Clip(w.Resync), b)
	}
	w.Triggers = slices.DeleteFunc(slices.Clone(w.Triggers), func(t messages.Trigger) bool { return isEvent(t) && t.Index == b.Index })
	return w
}

// isEvent reports whether a trigger is a change for which a Synchronization can stand.
func isEvent(t messages.Trigger) bool { return t.Context.Type == hooks.TypeEvent }

// held is what a trigger holds in memory while it waits.
func held(t messages.Trigger) int { return len(t.Context.Object) + len(t.Context.FilterResult) }

// limited drops triggers until there are at most count of them, of at most so many bytes: of a
// group all but the last, then the events of the binding that has most, and so on. In protocol
// v0, which has no Synchronization, an object keeps its last event, and at last the oldest go.
func limited(w messages.RunHook, count, bytes int, size func(messages.Trigger) int) (_ messages.RunHook, dropped []overflow) {
	over := func() bool {
		sum := 0
		for _, t := range w.Triggers {
			sum += size(t)
		}
		return len(w.Triggers) > count || sum > bytes
	}
	if !over() {
		return w, nil
	}
	w.Triggers = lastOf(w.Triggers, func(t messages.Trigger) (any, bool) {
		r := t.Context.Resource
		if r != nil {
			return *r, true
		}
		return t.Context.GroupName, t.Context.Type == hooks.TypeGroup
	})
	for over() {
		b, events := largest(w.Triggers, size)
		if events < 2 {
			break
		}
		w = withResync(w, b)
		dropped = append(dropped, overflow{binding: b.Name, events: events})
	}
	return withoutOldest(w, len(w.Triggers)-count, dropped)
}

// withoutOldest drops the oldest events of protocol v0, as many as there are too many.
func withoutOldest(w messages.RunHook, surplus int, dropped []overflow) (messages.RunHook, []overflow) {
	var kept []messages.Trigger
	lost := overflow{lost: true}
	for _, t := range w.Triggers {
		if t.Context.Resource == nil || lost.events >= surplus {
			kept = append(kept, t)
			continue
		}
		lost.events++
		lost.binding = t.Context.Binding
	}
	if lost.events == 0 {
		return w, dropped
	}
	w.Triggers = kept
	return w, append(dropped, lost)
}

// lastOf keeps the last trigger of each key; those without one stay.
func lastOf(triggers []messages.Trigger, key func(messages.Trigger) (any, bool)) []messages.Trigger {
	type place struct {
		binding hooks.BindingType
		index   int
		key     any
	}
	last := map[place]int{}
	at := func(t messages.Trigger) (place, bool) {
		k, ok := key(t)
		if _, group := k.(string); group { // its members are several bindings
			return place{key: k}, ok
		}
		return place{t.Binding, t.Index, k}, ok
	}
	for i, t := range triggers {
		if p, ok := at(t); ok {
			last[p] = i
		}
	}
	var kept []messages.Trigger
	for i, t := range triggers {
		if p, ok := at(t); !ok || last[p] == i {
			kept = append(kept, t)
		}
	}
	return kept
}

// largest is the binding whose events are the largest part, and how many they are.
func largest(triggers []messages.Trigger, size func(messages.Trigger) int) (found messages.KubernetesBinding, events int) {
	bytes, counts := map[int]int{}, map[int]int{}
	best := -1
	for _, t := range triggers {
		if !isEvent(t) {
			continue
		}
		bytes[t.Index] += size(t)
		counts[t.Index]++
		switch {
		case counts[t.Index] < 2:
		case best < 0, bytes[t.Index] > bytes[best], bytes[t.Index] == bytes[best] && counts[t.Index] > counts[best]:
			best, found = t.Index, messages.KubernetesBinding{Index: t.Index, Name: t.Context.Binding}
		}
	}
	return found, counts[best]
}

// overflowed reports what was dropped.
func (p *program) overflowed(t messages.Task, dropped []overflow) {
	for _, o := range dropped {
		p.Metrics.Queues.Overflowed(t.Queue, t.Hook())
		log := p.Log.With("hook", t.Hook(), "binding", o.binding, "queue", t.Queue, "events", o.events)
		if t.Owner != messages.GlobalHooks {
			log = log.With("module", t.Owner)
		}
		what := "too many events wait for a hook: they are dropped, and a Synchronization of the binding replaces them"
		if o.lost {
			what = "too many events wait for a hook of protocol v0: the oldest are dropped"
		}
		log.Warn(what)
		p.notify(kube.Notice{Warning: true, Reason: "HookOverflow", Message: fmt.Sprintf("hook %s, binding %s: %s", t.Hook(), o.binding, what)})
	}
}

// firstRun is what one run of a hook serves of a waiting task. In protocol v0 each trigger has
// a run of its own (C20); rest goes on waiting then.
func firstRun(t messages.Task) (now, rest messages.Task, more bool) {
	w, _ := t.Work.(messages.RunHook)
	if !joins(t) || len(w.Triggers) < 2 || w.Triggers[0].Context.Type != "" {
		return t, messages.Task{}, false
	}
	now, rest = t, t
	later := w
	w.Triggers, later.Triggers = w.Triggers[:1:1], slices.Clip(w.Triggers[1:])
	later.Binding = later.Triggers[0].Binding
	now.Work, rest.Work = w, later
	return now, rest, true
}
