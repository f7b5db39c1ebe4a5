package monitors

import (
	"maps"
	"slices"
	"time"

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
func (w *writes) causeOf(name messages.ObjectName, msg objectChanged) (messages.Cause, bool) {
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
func describeEvent(mon *monitor, msg objectChanged) string {
	return describeObject(mon.binding.Kind, msg.Namespace, msg.Name) + " " + msg.Event + ", binding " + mon.binding.Name
}

// describeObject names an object for people.
func describeObject(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}
