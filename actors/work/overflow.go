package work

import (
	"fmt"
	"slices"

	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
)

// maxContexts bounds the bytes of BINDING_CONTEXT_PATH when there are several contexts,
// each of which repeats the snapshots it asked for.
const maxContexts = 32 << 20

// Overflow is what was dropped to keep within the limits.
type Overflow struct {
	Binding string
	Events  int
	Lost    bool // nothing replaces them (protocol v0)
}

// WithResync drops the events of a binding; a Synchronization stands for them. The triggers of w
// are not changed, but copied: messages share them.
func WithResync(w messages.RunHook, b messages.KubernetesBinding) messages.RunHook {
	if !slices.Contains(w.Resync, b) {
		w.Resync = append(slices.Clip(w.Resync), b)
	}
	w.Triggers = slices.DeleteFunc(slices.Clone(w.Triggers), func(t messages.Trigger) bool { return IsEvent(t) && t.Index == b.Index })
	return w
}

// IsEvent reports whether a trigger is a change for which a Synchronization can stand. Events of a
// group are none, because the last of them says as much; those of protocol v0 have no type.
func IsEvent(t messages.Trigger) bool { return t.Context.Type == hooks.TypeEvent }

// Held is what a trigger holds in memory while it waits, in bytes. Snapshots are not among it: they
// are taken when the hook runs.
func Held(t messages.Trigger) int { return len(t.Context.Object) + len(t.Context.FilterResult) }

// Limited drops triggers until there are at most count of them, of at most so many bytes by size.
// First all but the last trigger of a group go (C42), then the events of the binding that has most,
// then of the next: a Synchronization replaces them. Protocol v0 has no Synchronization: an object
// keeps its last event, and at last the oldest events go.
//
// It is used twice: for what waits in a queue, by Held, and for what goes into the file of a run,
// in which each context repeats its snapshots. What is left may exceed the limits: a single event,
// ticks and the last triggers of groups are never dropped.
func Limited(w messages.RunHook, count, bytes int, size func(messages.Trigger) int) (_ messages.RunHook, dropped []Overflow) {
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
		if events < 2 { // a Synchronization in place of one event saves nothing
			break
		}
		w = WithResync(w, b)
		dropped = append(dropped, Overflow{Binding: b.Name, Events: events})
	}
	return withoutOldest(w, len(w.Triggers)-count, dropped)
}

// withoutOldest drops the oldest events of protocol v0, as many as there are too many.
func withoutOldest(w messages.RunHook, surplus int, dropped []Overflow) (messages.RunHook, []Overflow) {
	var kept []messages.Trigger
	lost := Overflow{Lost: true}
	for _, t := range w.Triggers {
		if t.Context.Resource == nil || lost.Events >= surplus {
			kept = append(kept, t)
			continue
		}
		lost.Events++
		lost.Binding = t.Context.Binding
	}
	if lost.Events == 0 {
		return w, dropped
	}
	w.Triggers = kept
	return w, append(dropped, lost)
}

// lastOf keeps the last trigger of each key of a binding; those without one stay. The order stays.
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

// largest is the binding whose events are the largest part in bytes, and how many they are. A
// binding with a single event does not count; without any other, events is 0.
func largest(triggers []messages.Trigger, size func(messages.Trigger) int) (found messages.KubernetesBinding, events int) {
	bytes, counts := map[int]int{}, map[int]int{}
	best := -1
	for _, t := range triggers {
		if !IsEvent(t) {
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

// Overflowed reports what was dropped, in a metric, the log and an Event (P5). Actors and runs call
// it.
func (s *Shared) Overflowed(t messages.Task, dropped []Overflow) {
	for _, o := range dropped {
		s.Metrics.Queues.Overflowed(t.Queue, t.Hook())
		log := s.Log.With("hook", t.Hook(), "binding", o.Binding, "queue", t.Queue, "events", o.Events)
		if t.Owner != messages.GlobalHooks {
			log = log.With("module", t.Owner)
		}
		what := "too many events wait for a hook: they are dropped, and a Synchronization of the binding replaces them"
		if o.Lost {
			what = "too many events wait for a hook of protocol v0: the oldest are dropped"
		}
		log.Warn(what)
		s.notify(kube.Notice{Warning: true, Reason: "HookOverflow", Message: fmt.Sprintf("hook %s, binding %s: %s", t.Hook(), o.Binding, what)})
	}
}
