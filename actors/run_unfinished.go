package actors

import (
	"fmt"
	"maps"
	"slices"

	"addon-operator/hooks"
	"addon-operator/kube/objectpatch"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// effects are the part of a hook's result that follows its commit (D26): object patches, which the
// API server may refuse, then metrics. What is committed must not be committed again, so a retry
// continues here and does not run the hook.
type effects struct {
	hook    hooks.Hook
	step    string              // which run of the hook in the task
	objects []objectpatch.Patch // those that are left
	metrics []hooks.Metric
	// allowFailure: operations that fail are given up (F12).
	allowFailure bool
	// synchronization is what the run was for; its events are held until it has ended. shown is
	// what the hook has seen then.
	synchronization messages.Synchronization
	shown           []messages.Shown

	committed bool // the values are in force; before that a retry runs the hook again
}

// Unfinished are the effects of the tasks of an owner, by task. The owner and its runs share it: a
// run begins and ends effects, the owner commits and drops them.
type Unfinished struct {
	tasks supervisor.Shared[map[string]taskEffects]
}

// taskEffects are those of one task.
type taskEffects struct {
	// current are those of the hook that runs, or has failed. There is at most one: a run takes no
	// next step before they are done.
	current *effects
	// done are steps that an attempt has finished in GoOn, and that the run has not reached again;
	// it leaves them out.
	done []effects
}

// of replaces the effects of a task; one without any is forgotten.
func (u *Unfinished) of(task string, next func(taskEffects) taskEffects) {
	u.tasks.Change(func(before map[string]taskEffects) map[string]taskEffects {
		tasks := map[string]taskEffects{}
		maps.Copy(tasks, before)
		tasks[task] = next(tasks[task])
		if t := tasks[task]; t.current == nil && len(t.done) == 0 {
			delete(tasks, task)
		}
		return tasks
	})
}

// begin keeps the effects of a result that is about to be committed.
func (u *Unfinished) begin(task string, e effects) {
	u.of(task, func(t taskEffects) taskEffects { return taskEffects{&e, t.done} })
}

// change changes the effects that are not done, if there are any.
func (u *Unfinished) change(task string, change func(*effects)) {
	u.of(task, func(t taskEffects) taskEffects {
		if t.current != nil {
			e := *t.current
			change(&e)
			t.current = &e
		}
		return t
	})
}

// Commit is called by the owner: the values of the result are in force.
func (u *Unfinished) Commit(task string) {
	u.change(task, func(e *effects) { e.committed = true })
}

// due returns the effects that a retry of the task must finish first.
func (u *Unfinished) due(task string) (effects, bool) {
	t := u.tasks.Get()[task]
	if t.current == nil || !t.current.committed {
		return effects{}, false
	}
	return *t.current, true
}

// finished notes that a retry has finished the current effects; the run will leave the step out.
func (u *Unfinished) finished(task string) {
	u.of(task, func(t taskEffects) taskEffects { return taskEffects{done: t.all()} })
}

// all are the effects of the task.
func (t taskEffects) all() []effects {
	if t.current == nil {
		return t.done
	}
	return append(slices.Clip(t.done), *t.current)
}

// take reports whether a step of the task was done by an earlier attempt, and forgets it: a task
// may contain the same step twice.
func (u *Unfinished) take(task string, hook hooks.Hook, step string) (e effects, done bool) {
	u.of(task, func(t taskEffects) taskEffects {
		i := slices.IndexFunc(t.done, func(e effects) bool { return e.hook.Name == hook.Name && e.step == step })
		if done = i >= 0; done {
			e, t.done = t.done[i], slices.Concat(t.done[:i], t.done[i+1:])
		}
		return t
	})
	return e, done
}

// End drops the current effects: all of them are done, or none will be.
func (u *Unfinished) End(task string) {
	u.of(task, func(t taskEffects) taskEffects { return taskEffects{done: t.done} })
}

// Drop forgets a task, and returns the Synchronizations that what was kept of it was for.
func (u *Unfinished) Drop(task string) (begun []messages.Synchronization) {
	var dropped []effects
	u.of(task, func(t taskEffects) taskEffects {
		dropped = t.all()
		return taskEffects{}
	})
	for _, e := range dropped {
		if len(e.synchronization.Bindings) > 0 {
			begun = append(begun, e.synchronization)
		}
	}
	return begun
}

// Clear drops all effects: the module is switched off, or removed.
func (u *Unfinished) Clear() {
	u.tasks.Change(func(map[string]taskEffects) map[string]taskEffects { return nil })
}

// triggersStep and synchronizationStep name the runs of a hook in a task.
func triggersStep(binding hooks.BindingType) string { return string(binding) }

func synchronizationStep(w messages.SynchronizeHook) string {
	return fmt.Sprint("Synchronization ", w.Bindings)
}

// GoOn finishes what an earlier attempt at the task has left of a hook's result. If the binding
// allows failures, what fails again is given up (F12).
func (j Job) GoOn(run *supervisor.Run) error {
	e, due := j.Unfinished.due(j.Task.ID)
	if !due {
		return nil
	}
	h := j.Hook(run, e.hook)
	err := h.alone(func() error { return h.finish(e) })
	if err != nil && e.allowFailure && run.Context().Err() == nil {
		h.allowed(e.hook.Config.Kubernetes[e.synchronization.Bindings[0].Index].Name, err)
		err = nil
	}
	if err == nil {
		j.Unfinished.finished(j.Task.ID)
	}
	return err
}

// finish applies the effects of a committed result. What fails is kept for the next attempt.
func (h hookJob) finish(e effects) error {
	left, err := h.patchObjects(e.objects)
	if err != nil {
		h.job.Unfinished.change(h.job.Task.ID, func(e *effects) { e.objects = left })
		if e.allowFailure || h.job.Task.AllowFailure {
			return fmt.Errorf("%w (the rest of its result is in force)", err)
		}
		return fmt.Errorf("%w (the rest of its result is in force; this is retried without running the hook again)", err)
	}
	if dropped := h.job.Metrics.Reports.Add(h.job.Owner, e.hook.Name, e.metrics); dropped > 0 {
		h.job.Log.Warn("metrics of a hook are dropped", "hook", e.hook.Name, "err", fmt.Sprintf("%d values of new series: a hook may have %d series", dropped, h.job.Metrics.Reports.Limit))
	}
	if len(e.objects) > 0 {
		return h.job.ask(h.run, handOver{}) // that may have taken a while
	}
	return nil
}
