package actors

import (
	"slices"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// The line of a queue are its tasks that have not begun, in order. What is here decides what makes what needless (F9, C15),
// so that queue.go only begins and ends tasks.

// add adds a task at the end, or as the one with this index. Of the triggers of a hook it makes one task (C41), of the
// runs of a module one run: a run that waits already serves what has changed since (F9). The head does not count, unless
// the task is only a repetition of it.
func (q *queue) add(t messages.Task, first bool, index int) {
	if isReload(t) {
		q.addReload(t, first)
		return
	}
	if first { // the continuation of a task that has just ended (F5): it takes the place of what waits
		t = q.inPlaceOf(t, func(waiting messages.Task) bool { return serves(t, waiting) })
		q.line = slices.Insert(q.line, min(index, len(q.line)), t)
		return
	}
	if q.head != nil && Repeats(t, q.head.Task) || q.isServed(t) {
		return
	}
	if w, ok := t.Work.(messages.DiscoverModules); ok { // the modules run after it
		for _, module := range w.Modules {
			t = q.inPlaceOf(t, func(waiting messages.Task) bool {
				return slices.Equal(runs(waiting), []string{module}) && waiting.Reload == 0
			})
		}
	}
	q.line = q.program.MergeIntoWaiting(q.line, t)
}

// addReload adds a reload, which runs all modules: at the end, in place of all other work of modules; or first, in place
// of the reload in progress, too (F10).
func (q *queue) addReload(t messages.Task, first bool) {
	t = q.inPlaceOf(t, func(waiting messages.Task) bool {
		return isReload(waiting) || ofReload(waiting) && (first || waiting.Reload == 0)
	})
	t.Reload = 0 // it is no step of that one
	if first {
		q.line = slices.Insert(q.line, 0, t)
		return
	}
	q.line = append(q.line, t)
}

// ofReload reports whether a reload does the work of a task, or is ended with it.
func ofReload(t messages.Task) bool {
	switch w := t.Work.(type) {
	case messages.RunModule, messages.RunModules, messages.DeleteModule, messages.PurgeRelease, messages.FinishReload,
		messages.ReloadModules, messages.DiscoverModules: // a reload that has begun is its discovery
		return true
	case messages.RunHook:
		return w.Binding == hooks.BeforeAll || w.Binding == hooks.AfterAll
	}
	return false
}

// inPlaceOf removes waiting tasks, and returns t with their causes. If one of them was a step of a reload, the new task
// becomes that step: otherwise the reload would wait for a task that no longer exists.
func (q *queue) inPlaceOf(t messages.Task, which func(messages.Task) bool) messages.Task {
	q.line = slices.DeleteFunc(q.line, func(waiting messages.Task) bool {
		needless := which(waiting)
		if needless {
			t.Reload = max(t.Reload, waiting.Reload)
			t = t.Instead(waiting)
		}
		return needless
	})
	return t
}

// isServed reports whether a waiting task makes t needless.
func (q *queue) isServed(t messages.Task) bool {
	i := slices.IndexFunc(q.line, func(waiting messages.Task) bool { return serves(waiting, t) })
	if i >= 0 {
		q.line[i] = q.line[i].Instead(t)
	}
	return i >= 0
}

// serves reports whether a task makes another one needless: it runs all modules that the other would run, or repeats it.
func serves(t, other messages.Task) bool {
	if Repeats(other, t) {
		return true
	}
	_, asks := t.Work.(messages.DiscoverModules)
	if _, asked := other.Work.(messages.DiscoverModules); asked && !asks && !isReload(t) {
		return false // a run asks no script
	}
	wanted, run := runs(other), runs(t)
	return len(wanted) > 0 && (isReload(t) || !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(run, name) }))
}

// runs are the modules that a task runs, or that run after it.
func runs(t messages.Task) []string {
	switch w := t.Work.(type) {
	case messages.RunModule:
		return []string{t.Owner}
	case messages.RunModules:
		return w.Names
	case messages.DiscoverModules:
		return w.Modules
	}
	return nil
}

// crowd is the number of triggers of one hook from which on the status names the hook.
const crowd = 20

// count returns how many triggers wait for hooks, and the counts of those hooks for which more than
// crowd do. The map is nil when there is none, as nearly always.
func (q *queue) count() (triggers int, many map[string]int) {
	for _, t := range q.line {
		w, ok := t.Work.(messages.RunHook)
		if !ok || !carriesTriggers(t) {
			continue
		}
		triggers += len(w.Triggers)
		if len(w.Triggers) > crowd {
			if many == nil {
				many = map[string]int{}
			}
			many[w.Hook] += len(w.Triggers)
		}
	}
	return triggers, many
}

// firstRun is what one run of a hook serves of a waiting task. In protocol v0 each trigger has
// a run of its own (C20); rest goes on waiting then.
func firstRun(t messages.Task) (now, rest messages.Task, more bool) {
	w, _ := t.Work.(messages.RunHook)
	if !carriesTriggers(t) || len(w.Triggers) < 2 || w.Triggers[0].Context.Type != "" {
		return t, messages.Task{}, false
	}
	now, rest = t, t
	later := w
	w.Triggers, later.Triggers = w.Triggers[:1:1], slices.Clip(w.Triggers[1:])
	later.Binding = later.Triggers[0].Binding
	now.Work, rest.Work = w, later
	return now, rest, true
}
