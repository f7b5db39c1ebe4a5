package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/addons"
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
	owner *owner         // of the module
	dir   *addons.Module // of the module, as it is now
	life  *moduleLife    // of the module

	done  bool // the hooks were asked for their configuration
	count int  // of attempts
	loadAttempt
}

// loadAttempt is what is remembered while hooks are loaded.
type loadAttempt struct {
	// id is that of the run. Each attempt has its own: a message of a cancelled run may arrive
	// after its end, and would be taken for the result of the next.
	id       string
	needed   context.CancelFunc // ends the wait for its turn
	awaiting []*actor.PID       // runs that need the hooks
	err      error              // why it has failed
}

// answer answers a run that needs the hooks, at once or when they are loaded. Of a module that is
// switched off only a cancelled run asks, and it gets an error; a delete, too, runs hooks, and gets
// them.
func (l *loading) answer(ctx actor.Context) {
	switch {
	case l.done:
		ctx.Respond(handed{Known: l.owner.self.known()})
		return
	case l.life.off() && l.life.phase != view.Deleting:
		ctx.Respond(handed{Known: l.owner.self.known(), Err: errNotLoaded})
		return
	}
	l.awaiting = append(l.awaiting, ctx.Sender())
	l.begin(ctx)
	l.needed() // hooks of others, which are not needed yet, may hang
}

// begin begins to load the hooks, unless that has begun. A failure is the answer to all who wait.
// There is no retry here: the module run that needs the hooks fails with it, and asks again at its
// next attempt.
func (l *loading) begin(ctx actor.Context) {
	if l.done || l.owner.tasks.runs.Has(l.id) {
		return
	}
	p, dir := l.owner.program, *l.dir
	turn, needed := context.WithCancel(context.Background())
	l.count++
	l.id, l.needed, l.err = "load-hooks-"+strconv.Itoa(l.count), needed, nil
	l.owner.tasks.runs.Start(ctx, supervisor.Task{
		ID: l.id, AllowFailure: true,
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
			if found, _ := result.([]hooks.Hook); !l.done { // else newer ones are there
				l.have(ctx, found)
			}
		},
		Failed: func(a supervisor.Attempt) { l.err = a.Err },
		Ended: func(ctx actor.Context, _ supervisor.Outcome) {
			needed()
			l.ended(ctx)
		},
	})
}

// have takes over hooks that were asked for their configuration. The root learns which queues they
// name, before a task for one of these can come (F1).
func (l *loading) have(ctx actor.Context, found []hooks.Hook) {
	l.owner.hooks.all, l.done = found, true
	l.owner.program.NameQueues(ctx, found)
}

// ended answers those who wait. A run that has brought neither hooks nor an error was cancelled;
// who waits now came while it was ending, so it begins again.
func (l *loading) ended(ctx actor.Context) {
	if len(l.awaiting) == 0 {
		return
	}
	answer := handed{Known: l.owner.self.known()}
	if !l.done {
		if l.err == nil && !l.owner.tasks.runs.Ending() {
			l.begin(ctx)
			return
		}
		answer.Err = l.err
		if answer.Err == nil {
			answer.Err = errNotLoaded
		}
	}
	for _, pid := range l.awaiting {
		ctx.Send(pid, answer)
	}
	l.awaiting = nil
}

// errNotLoaded is the answer of a module that stops, or is switched off.
var errNotLoaded = errors.New("the module was stopped or disabled before its hooks were loaded")

// awaiting is a run that waits, and its task.
type awaiting struct {
	pid  *actor.PID
	task string
}

// ownHooks are the hooks of an owner, with what is known of their start-up: which bindings have had
// their Synchronization, and who waits for them (F13, F14).
type ownHooks struct {
	part
	tasks *ownTasks // of the owner

	// all are sorted by name, as they were found (C3).
	all      []hooks.Hook
	awaiting []awaiting // runs that wait for the Synchronizations of other queues
	started  bool       // these are over: schedules tick, although ticks before the end of the first converge are dropped (C14, G2)
	// queued are Synchronizations in queues other than main, by queuedKey: each is queued once,
	// however many runs wait for it.
	queued map[string]bool
	// settled are the bindings that nothing waits for: true when they are synchronized, false when they are deferred, because
	// their kind is missing or forbidden (C16).
	settled map[messages.BindingKey]bool
}

func newOwnHooks(of part, tasks *ownTasks) *ownHooks {
	return &ownHooks{part: of, tasks: tasks, queued: map[string]bool{}, settled: map[messages.BindingKey]bool{}}
}

// reset forgets what belongs to an enabled module only.
func (h *ownHooks) reset() {
	h.all, h.awaiting, h.started = nil, nil, false
	clear(h.queued)
	clear(h.settled)
}

// find finds a hook by its name.
func (h *ownHooks) find(name string) (hooks.Hook, error) {
	i := slices.IndexFunc(h.all, func(h hooks.Hook) bool { return h.Name == name })
	if i < 0 {
		return hooks.Hook{}, fmt.Errorf("hook %s is not loaded", name)
	}
	return h.all[i], nil
}

// handOver adds what a run must know of hooks. The map is cloned, because the run reads it in
// parallel with this actor.
func (h *ownHooks) handOver(k *known) {
	k.Hooks, k.Settled = h.all, maps.Clone(h.settled)
}

// bindingSettled notes that a binding needs no further Synchronization run, or is not waited for. If it was
// deferred, the module has run without this hook, and runs again (Late). Reports of runs that were cancelled count for nothing.
func (h *ownHooks) bindingSettled(ctx actor.Context, msg messages.BindingSettled) {
	if !h.tasks.runs.Lives(msg.Task) {
		return // the owner starts again
	}
	h.settled[msg.Binding] = h.settled[msg.Binding] || !msg.Deferred
	if msg.Late {
		h.self.reconcile(ctx, messages.Cause{Activation: messages.BySync, Detail: msg.Binding.Hook})
	}
	h.answerAwaiting(ctx)
}

// await remembers a run that waits for the Synchronizations in other queues, and queues those that
// are missing there (F16).
func (h *ownHooks) await(ctx actor.Context, msg messages.AwaitSynchronized) {
	h.awaiting = append(h.awaiting, awaiting{ctx.Sender(), msg.Task})
	h.queueSynchronizations(ctx, msg.Trace)
	h.answerAwaiting(ctx)
}

// queueSynchronizations queues what is missing in named queues.
func (h *ownHooks) queueSynchronizations(ctx actor.Context, trace string) {
	for _, hook := range h.all {
		for _, w := range synchronizations(hook) {
			queue := hook.Config.Kubernetes[w.Bindings[0]].Queue
			synchronized, settled := h.settled[bindingKey(hook, w.Bindings[0])]
			if queue == hooks.MainQueue || settled && !synchronized || h.queued[queuedKey(w)] || h.allSynchronized(hook, w) {
				continue
			}
			h.queued[queuedKey(w)] = true
			t := h.program.NewTask(h.name, w, messages.Cause{Activation: messages.BySync})
			t.Queue, t.Trace = queue, trace
			h.program.Enqueue(ctx, false, t)
		}
	}
}

// answerAwaiting answers the waiting runs, and starts the schedules, once each binding with waitForSynchronization has
// succeeded or is deferred. Those of main are not looked at: the run executes them itself.
func (h *ownHooks) answerAwaiting(ctx actor.Context) {
	for _, hook := range h.all {
		for i, b := range hook.Config.Kubernetes {
			if _, settled := h.settled[bindingKey(hook, i)]; b.WaitForSynchronization && b.Queue != hooks.MainQueue && !settled {
				return
			}
		}
	}
	for _, run := range h.awaiting {
		ctx.Send(run.pid, handed{Known: h.self.known()})
		if h.tasks.runs.Lives(run.task) { // else it was cancelled meanwhile
			h.started = true
			ctx.Send(h.program.PID(schedulePath), messages.StartSchedules{Owner: h.name, Hooks: h.all})
		}
	}
	h.awaiting = nil
}

func (h *ownHooks) allSynchronized(hook hooks.Hook, w messages.SynchronizeHook) bool {
	return !slices.ContainsFunc(w.Bindings, func(i int) bool { return !h.settled[bindingKey(hook, i)] })
}

// unqueued notes that a Synchronization task has ended or was dropped, so that a later run may
// queue it again.
func (h *ownHooks) unqueued(t messages.Task) {
	if w, ok := t.Work.(messages.SynchronizeHook); ok {
		delete(h.queued, queuedKey(w))
	}
}

func queuedKey(w messages.SynchronizeHook) string { return fmt.Sprint(w.Hook, w.Bindings) }

// needless reports whether a queued Synchronization has succeeded already and is no repetition
// (C15): after two switches of a module the same one may wait twice.
func (h *ownHooks) needless(w messages.SynchronizeHook) bool {
	hook, err := h.find(w.Hook)
	if err == nil && slices.ContainsFunc(w.Bindings, func(i int) bool { return i >= len(hook.Config.Kubernetes) }) {
		return true // the hook is another one since
	}
	return err == nil && !w.Again && h.allSynchronized(hook, w)
}
