package modules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/messages"
)

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

func newHooks(of part, tasks *ownTasks) *ownHooks {
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
func (h *ownHooks) handOver(k *work.Known) {
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
		for _, w := range work.Synchronizations(hook) {
			queue := hook.Config.Kubernetes[w.Bindings[0]].Queue
			synchronized, settled := h.settled[work.BindingKey(hook, w.Bindings[0])]
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
			if _, settled := h.settled[work.BindingKey(hook, i)]; b.WaitForSynchronization && b.Queue != hooks.MainQueue && !settled {
				return
			}
		}
	}
	for _, run := range h.awaiting {
		ctx.Send(run.pid, work.Handed{Known: h.self.known()})
		if h.tasks.runs.Lives(run.task) { // else it was cancelled meanwhile
			h.started = true
			ctx.Send(h.program.PID(work.SchedulePath), messages.StartSchedules{Owner: h.name, Hooks: h.all})
		}
	}
	h.awaiting = nil
}

func (h *ownHooks) allSynchronized(hook hooks.Hook, w messages.SynchronizeHook) bool {
	return !slices.ContainsFunc(w.Bindings, func(i int) bool { return !h.settled[work.BindingKey(hook, i)] })
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
