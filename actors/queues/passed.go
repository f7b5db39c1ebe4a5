package queues

import (
	"slices"
	"time"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// passedTask is a task that its queue has gone past, because its module waits for a Helm hook or for another module (H26).
type passedTask struct {
	messages.Task
	since   time.Time
	waiting []string // the modules of it that do; none: the queue waits for the task again
}

// letPass notes that a module of the task in progress, or of one that was passed, waits or does not
// any more.
func (q *queue) letPass(msg messages.LetPass) {
	concerns := func(t messages.Task) bool {
		group, _ := t.Work.(messages.RunModules)
		return t.ID == msg.ID || slices.Contains(group.Names, msg.Owner)
	}
	if q.current != nil && msg.Waits && concerns(*q.current) {
		q.passed = append(q.passed, passedTask{Task: *q.current, since: q.since})
		q.current = nil
	}
	for i := range q.passed {
		b := &q.passed[i]
		if !concerns(b.Task) {
			continue
		}
		b.waiting = slices.DeleteFunc(slices.Clone(b.waiting), func(name string) bool { return name == msg.Owner })
		if msg.Waits {
			b.waiting = append(b.waiting, msg.Owner)
		}
	}
}

// passedDone forgets a task that has ended.
func (q *queue) passedDone(id string) {
	q.passed = slices.DeleteFunc(q.passed, func(b passedTask) bool { return b.ID == id })
}

// nextPending is the index of the task to begin, -1 when none may: the first that may go past all
// tasks that wait for Helm hooks, and past all that wait for their next attempt.
func (q *queue) nextPending() int {
	if q.busy() {
		return -1
	}
	order := q.program.EnabledModules()
	return slices.IndexFunc(q.line.tasks, func(t messages.Task) bool {
		return !slices.ContainsFunc(q.passed, func(b passedTask) bool { return !b.letsPass(t, order) }) &&
			!slices.ContainsFunc(q.held, func(h held) bool { return !passes(t, h) })
	})
}

// letsPass reports whether a task may begin while this one waits. order are the enabled modules in
// their order.
func (b passedTask) letsPass(t messages.Task, order []string) bool {
	if t.Urgent {
		return true
	}
	switch w := t.Work.(type) {
	case messages.DeleteModule, messages.PurgeRelease, messages.ReloadModules, messages.DiscoverModules:
		return true
	case messages.FinishReload:
		return false
	case messages.RunModules: // those of one order run side by side
		return slices.ContainsFunc(w.Names, func(name string) bool { return b.letsRun(name, order) })
	case messages.RunModule:
		return b.letsRun(t.Owner, order)
	case messages.RunHook:
		if t.Owner == messages.GlobalHooks {
			return w.Binding != hooks.AfterAll
		}
	}
	return t.Owner == messages.GlobalHooks || !slices.Contains(runs(b.Task), t.Owner) && b.letsRun(t.Owner, order)
}

// letsRun reports whether a module may run: it is this one, whose new run replaces the one that
// waits, or it comes before it. A delete (no modules) lets all run, because deletes come after
// runs.
func (b passedTask) letsRun(name string, order []string) bool {
	of := runs(b.Task)
	if len(of) == 0 || slices.Contains(of, name) {
		return true
	}
	at := slices.Index(order, name)
	return at >= 0 && !slices.ContainsFunc(of, func(waits string) bool { return at > slices.Index(order, waits) })
}
