package queues

import (
	"slices"
	"time"

	"addon-operator/actors/shared"
	"addon-operator/messages"
)

// waitingLine are the tasks of a queue that have not begun, in order. It decides what makes what
// needless (F9, C15), so that queue.go only begins and ends tasks.
type waitingLine struct {
	program *shared.Program
	tasks   []messages.Task
	// dropped are the causes of runs that a reload has dropped, by module: the next run of it has them.
	dropped map[string][]messages.Cause
}

// addFirst puts tasks before all others, in place of those that they make needless.
func (l *waitingLine) addFirst(tasks []messages.Task, now time.Time) {
	var first []messages.Task
	for _, t := range tasks {
		t.QueuedAt = now
		first = append(first, l.inPlace(t))
		if _, all := t.Work.(messages.FinishReload); all { // what it does not run is off
			clear(l.dropped)
		}
	}
	l.tasks = slices.Concat(first, l.tasks)
}

// add adds a task, unless one that waits serves it already, or it repeats one that has begun and is
// not done. together are the tasks of the same message: they were put in order by their sender.
func (l *waitingLine) add(t messages.Task, together, begun []messages.Task) {
	if l.isServed(t) || slices.ContainsFunc(begun, func(b messages.Task) bool { return shared.Repeats(t, b) }) {
		return
	}
	if at := l.placeOf(t, together); at < len(l.tasks) {
		l.tasks = slices.Insert(l.tasks, at, t)
		return
	}
	l.tasks = l.program.MergeIntoWaiting(l.tasks, t)
}

// inPlace drops the waiting tasks that a new task makes needless. If one of them was a step of a
// reload, the new task becomes that step: otherwise the reload would wait for a task that no longer
// exists.
func (l *waitingLine) inPlace(t messages.Task) messages.Task {
	l.tasks = slices.DeleteFunc(l.tasks, func(waiting messages.Task) bool {
		needless := serves(t, waiting)
		if needless {
			t.Reload = max(t.Reload, waiting.Reload)
			t = t.Instead(waiting)
		}
		return needless
	})
	for _, module := range runs(t) {
		t = t.For(l.dropped[module]...)
		delete(l.dropped, module)
	}
	return t
}

// placeOf returns the index at which a task joins the line. A heal joins before heals of modules
// that come later in the order (H13), because a later module may need the objects of an earlier
// one. Heals of the same message are ordered already.
func (l *waitingLine) placeOf(t messages.Task, together []messages.Task) int {
	if !t.Urgent {
		return len(l.tasks)
	}
	order := l.program.EnabledModules()
	mine := slices.Index(order, t.Owner)
	i := slices.IndexFunc(l.tasks, func(waiting messages.Task) bool {
		return waiting.Urgent && slices.Index(order, waiting.Owner) > mine &&
			!slices.ContainsFunc(together, func(other messages.Task) bool { return other.ID == waiting.ID })
	})
	if i < 0 {
		return len(l.tasks)
	}
	return i
}

// queueBefore adds a task whose triggers are older than those that wait for the same hook: it was
// set aside, or its run was cancelled.
func (l *waitingLine) queueBefore(t messages.Task) {
	i := slices.IndexFunc(l.tasks, func(waiting messages.Task) bool { return shared.Mergeable(t, waiting) })
	if i < 0 {
		l.tasks = append(l.tasks, t)
		return
	}
	both := l.program.MergeIntoWaiting([]messages.Task{t}, l.tasks[i])
	l.tasks[i] = both[0]
}

// drop removes the steps of a reload that starts again (F10).
func (l *waitingLine) drop(reload int) {
	l.tasks = slices.DeleteFunc(l.tasks, func(t messages.Task) bool {
		if t.Reload != reload {
			return false
		}
		for _, module := range runs(t) {
			l.dropped[module] = t.Causes()
		}
		return true
	})
}

// isServed reports whether a waiting task makes t needless. If t is urgent, so is the waiting run
// from then on. A group of modules cannot become urgent: the other modules of the group have no
// reason to go past a failing task.
func (l *waitingLine) isServed(t messages.Task) bool {
	i := slices.IndexFunc(l.tasks, func(waiting messages.Task) bool {
		_, group := waiting.Work.(messages.RunModules)
		return serves(waiting, t) && !(t.Urgent && group)
	})
	if i >= 0 {
		l.tasks[i] = l.tasks[i].Instead(t)
		l.tasks[i].Urgent = l.tasks[i].Urgent || t.Urgent
	}
	return i >= 0
}

// serves reports whether a task makes another one needless: it runs all modules that the
// other would run, or both reload, or one repeats the other.
func serves(t, other messages.Task) bool {
	if _, ok := other.Work.(messages.ReloadModules); ok {
		_, same := t.Work.(messages.ReloadModules)
		return same
	}
	if shared.Repeats(other, t) {
		return true
	}
	wanted, run := runs(other), runs(t)
	return len(wanted) > 0 && !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(run, name) })
}

// runs are the modules that a task runs.
func runs(t messages.Task) []string {
	switch w := t.Work.(type) {
	case messages.RunModule:
		return []string{t.Owner}
	case messages.RunModules:
		return w.Names
	}
	return nil
}

// crowd is the number of triggers of one hook from which on the status names the hook.
const crowd = 20

// count returns how many triggers wait for hooks, and the counts of those hooks for which more than
// crowd do. The map is nil when there is none, as nearly always.
func (l *waitingLine) count() (triggers int, many map[string]int) {
	for _, t := range l.tasks {
		w, ok := t.Work.(messages.RunHook)
		if !ok || !shared.CarriesTriggers(t) {
			continue
		}
		triggers += w.Carried()
		if w.Carried() > crowd {
			if many == nil {
				many = map[string]int{}
			}
			many[w.Hook] += w.Carried()
		}
	}
	return triggers, many
}

// firstRun is what one run of a hook serves of a waiting task. In protocol v0 each trigger has
// a run of its own (C20); rest goes on waiting then.
func firstRun(t messages.Task) (now, rest messages.Task, more bool) {
	w, _ := t.Work.(messages.RunHook)
	if !shared.CarriesTriggers(t) || len(w.Triggers) < 2 || w.Triggers[0].Context.Type != "" {
		return t, messages.Task{}, false
	}
	now, rest = t, t
	later := w
	w.Triggers, later.Triggers = w.Triggers[:1:1], slices.Clip(w.Triggers[1:])
	later.Binding = later.Triggers[0].Binding
	now.Work, rest.Work = w, later
	return now, rest, true
}
