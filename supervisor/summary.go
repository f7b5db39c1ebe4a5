package supervisor

import (
	"maps"
	"time"
)

// Summary is what the actors of one Go type are doing, all together: there are as many
// module actors as modules, and a run for each task, so metrics of single actors would
// have no end.
type Summary struct {
	// Count and Longest are by state: how many actors, and the longest time one has been in it.
	Count   map[string]int
	Longest map[string]time.Duration
	// Messages that wait in the mailboxes.
	Messages int
	// Processed messages and Restarts never fall: actors that are gone are counted, too.
	Processed, Restarts int64
}

// totals are the counters of actors that are gone.
type totals struct{ processed, restarts int64 }

// Summaries returns the actors as they are now by the names of their types, also of
// types that have no actor any more.
func (in *Inspector) Summaries() map[string]Summary {
	now := time.Now()
	in.mu.RLock()
	defer in.mu.RUnlock()
	all := map[string]Summary{}
	of := func(kind string) Summary {
		s, ok := all[kind]
		if !ok {
			s = Summary{Count: map[string]int{}, Longest: map[string]time.Duration{}}
		}
		return s
	}
	for kind, t := range in.gone {
		s := of(kind)
		s.Processed, s.Restarts = t.processed, t.restarts
		all[kind] = s
	}
	for _, p := range in.probes {
		s := of(p.kind)
		state := p.state()
		s.Count[state]++
		s.Longest[state] = max(s.Longest[state], now.Sub(time.Unix(0, p.since.Load())))
		s.Messages += max(0, p.Mailbox.UserMessageCount()) + max(0, int(p.system.Load()))
		s.Processed += p.processed.Load()
		s.Restarts += int64(p.restarts.Load())
		all[p.kind] = s
	}
	return all
}

// addStopped adds the counters of an actor that has stopped. Called with the lock of in.
func (in *Inspector) addStopped(p *probe) {
	t := in.gone[p.kind]
	t.processed += p.processed.Load()
	t.restarts += int64(p.restarts.Load())
	in.gone[p.kind] = t
}

// Statuses returns what all actors have published, by path.
func (in *Inspector) Statuses() map[string]Status {
	in.mu.RLock()
	probes := maps.Clone(in.probes)
	in.mu.RUnlock()
	all := make(map[string]Status, len(probes))
	for path, p := range probes {
		if s := p.status.Load(); s != nil {
			all[path] = *s
		}
	}
	return all
}

// state is one of idle, busy, suspended.
func (p *probe) state() string {
	switch {
	case p.busy.Load():
		return Busy
	case p.suspended.Load():
		return Suspended
	}
	return Idle
}
