package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// loading loads the hooks of a module, in a run of its own: from the moment when a discovery has
// enabled the module, while the modules before it are still being installed. With many modules the
// questions for --config take as long as all hooks of the first converge. The runs of all modules
// take turns, so that hooks are asked in alphabetical order (C3); a module that needs its hooks at
// once does not wait for its turn.
type loading struct {
	// run is the ID of that run. Each attempt has its own: a message of a cancelled run may arrive
	// after its end, and would be taken for the result of the next.
	run      string
	needed   context.CancelFunc // ends the wait for its turn
	awaiting []*actor.PID       // runs that need the hooks
}

// answerHooks answers a run that needs the hooks, at once or when they are loaded. Of a module that is
// switched off only a cancelled run asks, and it gets an error; a delete, too, runs hooks, and gets
// them.
func (m *module) answerHooks(ctx actor.Context) {
	switch {
	case m.loaded:
		ctx.Respond(handed{Known: m.known()})
		return
	case m.off() && m.phase != view.Deleting:
		ctx.Respond(handed{Known: m.known(), Err: errNotLoaded})
		return
	}
	m.loading.awaiting = append(m.loading.awaiting, ctx.Sender())
	m.load(ctx)
	m.loading.needed() // hooks of others, which are not needed yet, may hang
}

// load begins to load the hooks, unless that has begun. A failure is the answer to all who wait.
// There is no retry here: the module run that needs the hooks fails with it, and asks again at its
// next attempt.
func (m *module) load(ctx actor.Context) {
	if m.loaded || m.runs.Has(m.loading.run) {
		return
	}
	p, dir := m.program, m.module
	turn, needed := context.WithCancel(context.Background())
	m.loads++
	id, failed := "load-hooks-"+strconv.Itoa(m.loads), errNotLoaded
	m.loading = loading{id, needed, m.loading.awaiting}
	m.runs.Start(ctx, supervisor.Task{
		ID: id, AllowFailure: true,
		Work: func(run *supervisor.Run) (any, error) {
			defer context.AfterFunc(run.Context(), needed)()
			run.Step("wait until other modules have loaded their hooks")
			if p.Loads.Acquire(turn, 1) == nil {
				defer p.Loads.Release(1)
			}
			run.Step("run hooks with --config")
			return p.Runs.LoadModuleHooks(run.Context(), dir)
		},
		Succeeded: func(ctx actor.Context, result any) {
			found, _ := result.([]hooks.Hook)
			m.hooks, m.loaded, failed = found, true, nil
			p.NameQueues(ctx, found) // before a task for one of these can come (F1)
		},
		Failed: func(a supervisor.Attempt) { failed = a.Err },
		Ended: func(ctx actor.Context, _ supervisor.Outcome) {
			if needed(); m.loading.run != id {
				return // it was cancelled, and who waits now waits for another one
			}
			for _, pid := range m.loading.awaiting {
				ctx.Send(pid, handed{Known: m.known(), Err: failed})
			}
			m.loading.awaiting = nil
		},
	})
}

// errNotLoaded is the answer of a module that stops, or is switched off.
var errNotLoaded = errors.New("the module was stopped or disabled before its hooks were loaded")

// awaiting is a run that waits, and its task.
type awaiting struct {
	pid  *actor.PID
	task string
}

// hookWork is the work of a task that runs one hook; nil if the hook is gone since (P8), or its Synchronization is needless.
func (o *owner) hookWork(j Job) func(*supervisor.Run) (any, error) {
	i := slices.IndexFunc(o.hooks, func(h hooks.Hook) bool { return h.Name == j.Task.Hook() })
	if i < 0 {
		return nil
	}
	hook := o.hooks[i]
	switch w := j.Task.Work.(type) {
	case messages.RunHook:
		return func(run *supervisor.Run) (any, error) { return nil, j.Hook(run, hook).Run(w) }
	case messages.SynchronizeHook:
		if !o.needless(hook, w) {
			return func(run *supervisor.Run) (any, error) { return nil, j.Hook(run, hook).Synchronize(w) }
		}
	}
	return nil
}

// bindingSettled notes that a binding needs no further Synchronization run, or is not waited for. If it was
// deferred, the module has run without this hook, and runs again (Late). Reports of runs that were cancelled count for nothing.
func (o *owner) bindingSettled(ctx actor.Context, msg messages.BindingSettled) {
	if !o.runs.Lives(msg.Task) {
		return // the owner starts again
	}
	o.settled[msg.Binding] = o.settled[msg.Binding] || !msg.Deferred
	if msg.Late {
		o.self.reconcile(ctx, messages.Cause{Activation: messages.BySync, Detail: msg.Binding.Hook})
	}
	o.answerAwaiting(ctx)
}

// await remembers a run that waits for the Synchronizations in other queues, and queues those that
// are missing there (F16).
func (o *owner) await(ctx actor.Context, msg messages.AwaitSynchronized) {
	o.awaiting = append(o.awaiting, awaiting{ctx.Sender(), msg.Task})
	o.queueSynchronizations(ctx, msg.Trace)
	o.answerAwaiting(ctx)
}

// queueSynchronizations queues what is missing in named queues.
func (o *owner) queueSynchronizations(ctx actor.Context, trace string) {
	for _, hook := range o.hooks {
		for _, w := range synchronizations(hook) {
			queue := hook.Config.Kubernetes[w.Bindings[0]].Queue
			synchronized, settled := o.settled[bindingKey(hook, w.Bindings[0])]
			if queue == hooks.MainQueue || settled && !synchronized || o.queued[queuedKey(w)] || o.allSynchronized(hook, w) {
				continue
			}
			o.queued[queuedKey(w)] = true
			t := o.program.NewTask(o.name, w, messages.Cause{Activation: messages.BySync})
			t.Queue, t.Trace = queue, trace
			o.program.Enqueue(ctx, false, t)
		}
	}
}

// answerAwaiting answers the waiting runs, and starts the schedules, once each binding with waitForSynchronization has
// succeeded or is deferred. Those of main are not looked at: the run executes them itself.
func (o *owner) answerAwaiting(ctx actor.Context) {
	for _, hook := range o.hooks {
		for i, b := range hook.Config.Kubernetes {
			if _, settled := o.settled[bindingKey(hook, i)]; b.WaitForSynchronization && b.Queue != hooks.MainQueue && !settled {
				return
			}
		}
	}
	for _, run := range o.awaiting {
		ctx.Send(run.pid, handed{Known: o.self.known()})
		if o.runs.Lives(run.task) { // else it was cancelled meanwhile
			o.ticks = true
			ctx.Send(o.program.PID(schedulePath), messages.StartSchedules{Owner: o.name, Hooks: o.hooks})
		}
	}
	o.awaiting = nil
}

func (o *owner) allSynchronized(hook hooks.Hook, w messages.SynchronizeHook) bool {
	return !slices.ContainsFunc(w.Bindings, func(i int) bool { return !o.settled[bindingKey(hook, i)] })
}

// unqueued notes that a Synchronization task has ended or was dropped, so that a later run may
// queue it again.
func (o *owner) unqueued(t messages.Task) {
	if w, ok := t.Work.(messages.SynchronizeHook); ok {
		delete(o.queued, queuedKey(w))
	}
}

func queuedKey(w messages.SynchronizeHook) string { return fmt.Sprint(w.Hook, w.Bindings) }

// needless reports whether a queued Synchronization has succeeded already and is no repetition
// (C15): after two switches of a module the same one may wait twice.
func (o *owner) needless(hook hooks.Hook, w messages.SynchronizeHook) bool {
	if slices.ContainsFunc(w.Bindings, func(i int) bool { return i >= len(hook.Config.Kubernetes) }) {
		return true // the hook is another one since
	}
	return !w.Again && o.allSynchronized(hook, w)
}
