package monitors

import (
	"log/slog"
	"time"

	"addon-operator/actors/shared"
	"addon-operator/hooks"
)

// monitor is one binding of one hook: its watch, and which of its events become tasks.
type monitor struct {
	monitorLife
	watched
	hook      hooks.Hook
	binding   hooks.KubernetesBinding
	overflow  string // why the snapshot is not kept; stays while the watch is filled again
	overflows int    // how often it was too large; makes the delays

	resync *time.Timer // nil without resynchronizationPeriod, or before the first Synchronization
}

// watched is one instance of the watch, with all that counts its changes or keeps them. It is
// replaced as a whole: a change that another instance has counted is compared with nothing of this
// one, or new events would count as seen, and old ones as new.
type watched struct {
	watch    shared.Watch
	instance uint64 // its number: messages of a stopped one may still arrive

	runs map[int64]bool // Synchronization runs that show it to the hook now
	seen uint64         // the change (Seq) that the Synchronization run saw last, or that became an event last
	held heldEvents     // what came while a Synchronization runs
}

func newWatched(watch shared.Watch, instance uint64) watched {
	return watched{watch: watch, instance: instance, runs: map[int64]bool{}}
}

func newMonitor(log *slog.Logger, hook hooks.Hook, b hooks.KubernetesBinding) *monitor {
	return &monitor{
		monitorLife: monitorLife{log: log.With("hook", hook.Name, "binding", b.Name), phase: filling},
		hook:        hook, binding: b,
	}
}

// complete reports whether the snapshot is complete at this moment. It may cease to be: a
// permission is lost, or another namespace begins to match (C17).
func (mon *monitor) complete() bool { return mon.isFilled() && mon.watch.State().Whole() }

// runBegan is called when a Synchronization run gets its snapshots: what changes from now on it
// does not see, so it is held (C40). A repetition (C15) of an open binding holds nothing.
func (mon *monitor) runBegan(run int64) {
	if mon.phase == open {
		return // one on top of the events, which go on
	}
	mon.runs[run] = true
	if mon.phase == filled {
		mon.become(showing)
	}
}

// runEnded drops the events that were held for a run that has failed: the next run gets newer
// snapshots, which contain them.
func (mon *monitor) runEnded(run int64) {
	delete(mon.runs, run)
	if mon.isShowing() && len(mon.runs) == 0 {
		mon.held = heldEvents{}
		mon.become(filled)
	}
}

// hold keeps an event until the Synchronization has succeeded.
func (mon *monitor) hold(msg objectChanged) {
	if mon.held.add(msg, mon.hook.Config.Version == hooks.V0) {
		mon.become(flooded)
	}
}

// open ends the Synchronization. It returns the held events that the run did not see (C40). If too
// many came to be held, it returns their number instead.
func (mon *monitor) open(seen uint64) (events []objectChanged, dropped int) {
	mon.seen = max(mon.seen, seen)
	for _, change := range mon.held.events {
		if change.Seq > mon.seen {
			events = append(events, change)
			mon.seen = change.Seq
		}
	}
	dropped = mon.held.dropped
	mon.held = heldEvents{}
	clear(mon.runs)
	mon.become(open)
	return events, dropped
}

// giveUp stops a watch whose snapshot is too large, with all that it has held. When it is filled
// again it begins like a new one.
func (mon *monitor) giveUp() {
	mon.watch.Stop()
	mon.overflow = mon.watch.State().Message
	mon.overflows++
	mon.watched = newWatched(mon.watch, mon.instance)
	mon.become(tooLarge)
}

func (mon *monitor) stop() {
	mon.watch.Stop()
	if mon.resync != nil {
		mon.resync.Stop()
	}
}

// heldEvents are the events that came while a Synchronization runs, in order. After too many only
// their number is known: another Synchronization replaces them.
type heldEvents struct {
	events         []objectChanged
	bytes, dropped int
}

// add holds another event, and reports whether that is one too many. Protocol v0 has no
// Synchronization that could replace events, so there the oldest are dropped.
func (h *heldEvents) add(msg objectChanged, dropOldest bool) (flooded bool) {
	size := func(c objectChanged) int { return len(c.Object.Object) + len(c.Object.FilterResult) }
	over := func() bool { return len(h.events) > shared.MaxTriggers || h.bytes > shared.MaxWaiting }
	h.events = append(h.events, msg)
	for h.bytes += size(msg); over() && dropOldest; h.events = h.events[1:] {
		h.bytes -= size(h.events[0])
	}
	if !over() {
		return false
	}
	*h = heldEvents{dropped: len(h.events)}
	return true
}
