package dev

import (
	"cmp"
	"context"
	"time"

	"addon-operator/actors"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// lookEvery is how often the states of modules are compared with those that were shown.
const lookEvery = 250 * time.Millisecond

// shown is what was last shown of a module, or of the global hooks.
type shown struct{ state, problem string }

// look shows how the states of modules change, until ctx ends.
func (s *session) look(ctx context.Context) {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	known, ready := map[string]shown{}, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		o := s.running()
		if o == nil {
			continue
		}
		for _, f := range changes(known, statesOf(o)) {
			s.out.show(f)
		}
		if !ready && o.Converge().Ready {
			ready = true
			s.started("the first converge is over, %s after the start", time.Since(s.begun).Round(time.Millisecond))
			s.checker.check(saved{"": nil}) // what was wrong before
		}
	}
}

// statesOf returns the states of all modules of an operator and of the global hooks. A step of a run
// is no state: whether it has changed something is known at its end.
func statesOf(o *actors.Operator) map[string]shown {
	now, statuses := map[string]shown{}, o.Inspector().Statuses()
	for _, m := range view.Modules(statuses, o.HangingHooks(), nil, time.Now()) {
		state := shown{state: m.State}
		switch m.Verdict.Class {
		case view.ClassFailing:
			state.state, state.problem = string(m.Verdict.Class), cmp.Or(failure(m.Failing), m.Verdict.Message)
		case view.ClassUnhealthy, view.ClassHeld:
			state.problem = m.Verdict.Message
		case view.ClassPending:
			continue
		case view.ClassBusy:
			if m.State != view.Progressing {
				continue
			}
		}
		now[m.Name] = state
	}
	for _, status := range statuses {
		if g, ok := status.(view.GlobalStatus); ok {
			now[messages.GlobalHooks] = shown{problem: failure(g.Failing)}
		}
	}
	return now
}

// failure is the first task that waits for its next attempt, in words that are those of the next one, too; "" when none does.
func failure(all []view.FailingTask) string {
	if len(all) == 0 {
		return ""
	}
	return all[0].Task + ": " + all[0].Error
}

// changes returns what differs from what was shown, and remembers it. While there is a problem, only
// problems are reported: the state follows from them.
func changes(known, now map[string]shown) (facts []fact) {
	for name, is := range now {
		was, seen := known[name]
		known[name] = is
		report := func(text string, bad bool) {
			facts = append(facts, fact{about: aboutState, module: messages.ModuleOf(name), text: text, bad: bad})
		}
		if is.problem != was.problem {
			if is.problem != "" {
				report(is.problem, true)
			} else {
				report("its problem is gone", false)
			}
		}
		fresh := !seen && is.state == string(view.Disabled) // all are until the first discovery
		if is.problem == "" && is.state != was.state && is.state != "" && !fresh {
			report(is.state, false)
		}
	}
	return facts
}
