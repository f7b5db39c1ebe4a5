package monitors

import (
	"log/slog"

	"addon-operator/actors/shared"
	"addon-operator/hooks"
)

// monitor is one binding of one hook: its watch, and which of its events become tasks.
type monitor struct {
	monitorLife
	watched
	hook     hooks.Hook
	binding  hooks.KubernetesBinding
	overflow string // why the snapshot is not kept; stays while the watch is filled again
}

// watched is one instance of the watch, with all that counts its changes or keeps them. It is
// replaced as a whole: a change that another instance has counted is compared with nothing of this
// one, or new events would count as seen, and old ones as new.
type watched struct {
	watch    shared.Watch
	instance uint64 // its number: messages of a stopped one may still arrive

	runs map[int64]bool  // Synchronization runs that show it to the hook now
	seen uint64          // the change (Seq) that the Synchronization run saw last, or that became an event last
	held []objectChanged // what came while a Synchronization runs, in order
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
	if mon.phase == showing && len(mon.runs) == 0 {
		mon.held = nil
		mon.become(filled)
	}
}

// hold keeps an event until the Synchronization has succeeded, and reports whether that is one too many.
func (mon *monitor) hold(msg objectChanged) (tooMany bool) {
	mon.held = append(mon.held, msg)
	bytes := 0
	for _, held := range mon.held {
		bytes += len(held.Object.Object) + len(held.Object.FilterResult)
	}
	return len(mon.held) > shared.MaxTriggers || bytes > shared.MaxWaiting
}

// open ends the Synchronization. It returns the held events that the run did not see (C40).
func (mon *monitor) open(seen uint64) (events []objectChanged) {
	mon.seen = max(mon.seen, seen)
	for _, change := range mon.held {
		if change.Seq > mon.seen {
			events = append(events, change)
			mon.seen = change.Seq
		}
	}
	mon.held = nil
	clear(mon.runs)
	mon.become(open)
	return events
}

// giveUp stops a watch that is too large, with all that it has held. When it is filled
// again it begins like a new one.
func (mon *monitor) giveUp(why string) {
	mon.watch.Stop()
	mon.overflow = why
	mon.watched = newWatched(mon.watch, mon.instance)
	mon.become(tooLarge)
}
