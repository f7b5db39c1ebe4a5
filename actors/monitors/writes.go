package monitors

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/kube"
	"addon-operator/messages"
)

// writes are those of Helm and of object patches of hooks that are under way, or ended lately.
//
// What the operator writes comes back as events of hooks that watch it. Its cause must pass from
// the write to the event (K10), or a loop through the cluster could not be recognised. The
// resourceVersion says which event belongs to a write: what a person or a controller writes a
// moment later has another version, and is no part of a loop. Until the API server has answered,
// any event of the object may be the one.
type writes struct {
	// open are by number of the write, from the request until its answer.
	open map[int64]messages.ObjectsPatched
	// byObject has the last writesKept writes of each object, the newest last.
	byObject map[messages.ObjectName][]write
	pruned   time.Time // the last time that old ones were forgotten
}

// write is one write of one object.
type write struct {
	id      int64
	cause   messages.Cause
	at      time.Time
	open    bool
	version string // empty: not known yet, or the object is gone, or nothing was written
}

const (
	// writeCounts is how late the event of a write may come.
	writeCounts = time.Minute
	// writesKept bounds what is kept of one object.
	writesKept = 16
)

func newWrites() writes {
	return writes{open: map[int64]messages.ObjectsPatched{}, byObject: map[messages.ObjectName][]write{}}
}

func (w *writes) begin(msg messages.ObjectsPatched) {
	now := time.Now()
	w.prune(now)
	w.open[msg.Write] = msg
	for _, name := range msg.Objects {
		w.add(name, write{id: msg.Write, cause: msg.Cause, at: now, open: true})
	}
}

func (w *writes) add(name messages.ObjectName, one write) {
	w.byObject[name] = append(w.byObject[name], one)
	w.byObject[name] = slices.Delete(w.byObject[name], 0, max(0, len(w.byObject[name])-writesKept))
}

// end notes the versions that the API server has answered. A hook may have used another name of the
// kind, and one operation may write an object several times, so the answer replaces what begin has
// noted. An object without a version was deleted, or not written.
func (w *writes) end(msg messages.ObjectsWritten) {
	begun, ok := w.open[msg.Write]
	if !ok {
		return
	}
	now := time.Now()
	this := func(one write) bool { return one.id == msg.Write }
	for _, v := range msg.Versions {
		w.byObject[v.ObjectName] = slices.DeleteFunc(w.byObject[v.ObjectName], func(one write) bool { return this(one) && one.open })
	}
	for _, name := range begun.Objects {
		for i := range w.byObject[name] {
			if known := &w.byObject[name][i]; this(*known) {
				known.open, known.at = false, now
			}
		}
	}
	for _, v := range msg.Versions {
		w.add(v.ObjectName, write{id: msg.Write, cause: begun.Cause, at: now, version: v.Version})
	}
	delete(w.open, msg.Write)
}

// prune forgets what ended long ago, at most once a minute.
func (w *writes) prune(now time.Time) {
	if now.Sub(w.pruned) < writeCounts {
		return
	}
	w.pruned = now
	maps.DeleteFunc(w.byObject, func(_ messages.ObjectName, list []write) bool {
		return !slices.ContainsFunc(list, func(one write) bool { return one.counts(now) })
	})
}

func (one write) counts(now time.Time) bool { return one.open || now.Sub(one.at) < writeCounts }

// causeOf returns the cause of the write that an event shows; the newest first, because an older
// one may have had the same effect. A deletion has a version that no answer contains, so there the
// missing version decides.
func (w *writes) causeOf(name messages.ObjectName, msg messages.ObjectChanged) (messages.Cause, bool) {
	now := time.Now()
	for _, one := range slices.Backward(w.byObject[name]) {
		effect := one.version == msg.Version
		if msg.Event == kube.Deleted { // has a version of its own
			effect = one.version == ""
		} else if one.version == "" {
			effect = one.open
		}
		if effect && one.counts(now) {
			return one.cause, true
		}
	}
	return messages.Cause{}, false
}

// describeEvent is what a cause says of an event.
func describeEvent(mon *monitor, msg messages.ObjectChanged) string {
	return describeObject(mon.binding.Kind, msg.Namespace, msg.Name) + " " + msg.Event + ", binding " + mon.binding.Name
}

// describeObject names an object for people.
func describeObject(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// slow delays an event that is part of a loop; events of the same object that come meanwhile wait
// with it. Nothing is lost: what is due then goes on as one task. When too much waits, it becomes
// one task in which a Synchronization replaces the events, as in a queue.
func (m *monitors) slow(ctx actor.Context, key messages.WatchKey, mon *monitor, object objectID, t messages.Task, l link) {
	d := shared.DelayAfter(l.over)
	if l.certain && !mon.slowed.certain() { // the others are of the same turn
		m.program.Looping(m.log, key.Owner, "events of "+key.Binding.Hook+" "+mon.binding.Name, t.Cause, d)
	}
	if mon.slowed.add(m.program, slowedEvent{object: object, certain: l.certain, task: t, due: time.Now().Add(d)}) {
		self := ctx.Self()
		time.AfterFunc(d, func() { m.program.Send(self, slowedDue{key, mon}) })
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
