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

// Limited drops triggers when there are more than count, or they take more bytes by size. Of a group all but the last one
// go (C42), and the events of each binding that has several: a Synchronization replaces them. Protocol v0 has no
// Synchronization: an object keeps its last event, and then the oldest events go.
//
// It is used twice: for what waits in a queue, by Held, and for what goes into the file of a run,
// in which each context repeats its snapshots. What is left may exceed the limits: a single event,
// ticks and the last triggers of groups are never dropped.
func Limited(w messages.RunHook, count, bytes int, size func(messages.Trigger) int) (_ messages.RunHook, dropped []Overflow) {
	sum, last, events := 0, map[any]int{}, map[messages.KubernetesBinding]int{}
	for i, t := range w.Triggers {
		sum += size(t)
		if key := replaceable(t); key != nil {
			last[key] = i
		}
		if IsEvent(t) {
			events[bindingOf(t)]++
		}
	}
	if len(w.Triggers) <= count && sum <= bytes {
		return w, nil
	}
	var kept []messages.Trigger
	for i, t := range w.Triggers {
		if key := replaceable(t); key == nil || last[key] == i {
			kept = append(kept, t)
		}
	}
	w.Triggers = kept
	for _, t := range kept {
		if b := bindingOf(t); events[b] > 1 { // a Synchronization in place of one event saves nothing
			w = WithResync(w, b)
			dropped = append(dropped, Overflow{Binding: b.Name, Events: events[b]})
			delete(events, b)
		}
	}
	return withoutOldest(w, len(w.Triggers)-count, dropped)
}

// bindingOf is the binding that has fired.
func bindingOf(t messages.Trigger) messages.KubernetesBinding {
	return messages.KubernetesBinding{Index: t.Index, Name: t.Context.Binding}
}

// replaceable is what a trigger is about if the last such trigger says as much as all of them; nil for others. The members
// of a group are several bindings.
func replaceable(t messages.Trigger) any {
	switch r := t.Context.Resource; {
	case r != nil:
		return [3]any{t.Binding, t.Index, *r}
	case t.Context.Type == hooks.TypeGroup:
		return t.Context.GroupName
	}
	return nil
}

// withoutOldest drops the oldest events of protocol v0, as many as there are too many.
func withoutOldest(w messages.RunHook, surplus int, dropped []Overflow) (messages.RunHook, []Overflow) {
	lost := Overflow{Lost: true}
	w.Triggers = slices.DeleteFunc(slices.Clone(w.Triggers), func(t messages.Trigger) bool {
		goes := t.Context.Resource != nil && lost.Events < surplus
		if goes {
			lost.Events, lost.Binding = lost.Events+1, t.Context.Binding
		}
		return goes
	})
	if lost.Events > 0 {
		dropped = append(dropped, lost)
	}
	return w, dropped
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
