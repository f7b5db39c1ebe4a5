package monitors

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/messages"
)

// slow delays an event that is part of a loop; events of the same object that come meanwhile wait
// with it. Nothing is lost: what is due then goes on as one task. When too much waits, it becomes
// one task in which a Synchronization replaces the events, as in a queue.
func (m *monitors) slow(ctx actor.Context, key messages.WatchKey, mon *monitor, object objectID, t messages.Task, l link) {
	d := shared.DelayAfter(l.over)
	if l.certain && !mon.slowed.certain() { // the others are of the same turn
		m.program.Looping(m.log, key.Owner, "events of "+key.Binding.Hook+" "+mon.binding.Name, t.Cause, d)
	}
	if mon.slowed.add(m.program, slowedEvent{object: object, certain: l.certain, task: t, due: time.Now().Add(d)}) {
		m.program.SendLater(ctx, d, slowedDue{key, mon})
	}
}

// slowedEvents wait because they are part of a loop.
type slowedEvents struct {
	list  []slowedEvent
	bytes int
}

// certain reports whether one of them is a loop, and no suspicion.
func (s *slowedEvents) certain() bool {
	return slices.ContainsFunc(s.list, func(e slowedEvent) bool { return e.certain })
}

// add reports whether the event needs a timer of its own, because no other event of the object
// waits.
func (s *slowedEvents) add(p *shared.Program, e slowedEvent) (alone bool) {
	if len(s.list) > 0 && s.list[0].all {
		s.list[0].merge(p, e.task)
		return false
	}
	i := slices.IndexFunc(s.list, func(other slowedEvent) bool { return other.object == e.object })
	if i >= 0 {
		e.due = s.list[i].due
	}
	s.list, s.bytes = append(s.list, e), s.bytes+e.size()
	if len(s.list) > shared.MaxTriggers || s.bytes > shared.MaxWaiting {
		tasks := s.release(func(slowedEvent) bool { return true })
		one := slowedEvent{all: true, certain: true, task: tasks[0], due: e.due}
		for _, t := range tasks[1:] {
			one.merge(p, t)
		}
		s.list = []slowedEvent{one}
	}
	return i < 0
}

// slowedEvent is an event that waits because it is part of a loop, or all of a binding as one task.
type slowedEvent struct {
	object  objectID
	all     bool
	certain bool // it is a loop, and no suspicion
	task    messages.Task
	due     time.Time
}

func (e *slowedEvent) merge(p *shared.Program, t messages.Task) {
	merged := p.MergeIntoWaiting([]messages.Task{e.task}, t)
	e.task = merged[0] // both are for the same hook and binding
}

func (e slowedEvent) size() (n int) {
	w, _ := e.task.Work.(messages.RunHook)
	for _, t := range w.Triggers {
		n += work.Held(t)
	}
	return n
}

// release takes events out of those that wait, in their order.
func (s *slowedEvents) release(which func(slowedEvent) bool) (tasks []messages.Task) {
	kept := s.list
	*s = slowedEvents{}
	for _, e := range kept {
		if which(e) {
			tasks = append(tasks, e.task)
			continue
		}
		s.list, s.bytes = append(s.list, e), s.bytes+e.size()
	}
	return tasks
}

// overtaken returns the waiting events of an object when one comes that is no part of the loop.
// They go before it, so that the order holds, and with its cause, so that what they lead to does
// not wait.
func (s *slowedEvents) overtaken(object objectID, cause messages.Cause) []messages.Task {
	tasks := s.release(func(e slowedEvent) bool { return e.all || e.object == object })
	for i := range tasks {
		tasks[i].Cause = cause
	}
	return tasks
}

// slowedDue is sent by a timer when events that are part of a loop have waited long enough.
type slowedDue struct {
	watch messages.WatchKey
	mon   *monitor // another one after the module was disabled and enabled
}

func (m *monitors) slowedDue(ctx actor.Context, due slowedDue) {
	if mon := m.watches[due.watch]; mon != nil && mon == due.mon {
		now := time.Now()
		m.program.Enqueue(ctx, false, mon.slowed.release(func(e slowedEvent) bool { return !e.due.After(now) })...)
	}
}
