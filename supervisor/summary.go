package supervisor

import "maps"

// Summary is what the actors of one Go type are doing, all together: there are as many
// module actors as modules, and a run for each task, so metrics of single actors would
// have no end.
type Summary struct {
	// Count is how many actors are in each state.
	Count map[string]int
	// Messages that wait in the mailboxes.
	Messages int
	// Restarts never fall: those of actors that are gone are counted, too.
	Restarts int64
}

// Summaries returns the actors as they are now by the names of their types, also of
// types that have no actor any more.
func (in *Inspector) Summaries() map[string]Summary {
	in.mu.RLock()
	defer in.mu.RUnlock()
	all := map[string]Summary{}
	of := func(kind string) Summary {
		s, ok := all[kind]
		if !ok {
			s = Summary{Count: map[string]int{}}
		}
		return s
	}
	for kind, restarts := range in.gone {
		s := of(kind)
		s.Restarts = restarts
		all[kind] = s
	}
	for _, p := range in.probes {
		s := of(p.kind)
		s.Count[p.state()]++
		s.Messages += max(0, p.Mailbox.UserMessageCount()) + max(0, int(p.system.Load()))
		s.Restarts += int64(p.restarts.Load())
		all[p.kind] = s
	}
	return all
}

// addStopped adds the restarts of an actor that has stopped. Called with the lock of in.
func (in *Inspector) addStopped(p *probe) { in.gone[p.kind] += int64(p.restarts.Load()) }

// Statuses returns what all actors have published, by path.
func (in *Inspector) Statuses() map[string]Status {
	in.mu.RLock()
	probes := maps.Clone(in.probes)
	in.mu.RUnlock()
	all := make(map[string]Status, len(probes))
	for path, p := range probes {
		if s := p.read(); s != nil {
			all[path] = s
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
