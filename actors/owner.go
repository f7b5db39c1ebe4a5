package actors

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// owner is what a module and the global hooks have in common: it is the single writer
// of one section of values, has hooks, and supervises the runs of its tasks.
//
// Results of hooks are applied one after the other: a result that must be written to
// the ConfigMap waits for the config actor, and the ones behind it wait for that (D28).
type owner struct {
	*supervisor.Runs
	program *program
	name    string // module name, or messages.GlobalHooks
	log     *slog.Logger
	state   *ownerState
	// workingDir is WORKING_DIR of its hooks: the root in which they are searched (C23).
	workingDir string

	applying *application
	waiting  []application // behind the one that is being applied
	awaiting []*actor.PID  // runs that wait for all Synchronization runs
	queued   map[string]bool
	failing  map[string]messages.FailingTask // by task
	parked   map[string]bool                 // tasks that their queue no longer waits for
	alone    map[string]bool                 // tasks in progress that need the release for themselves
	next     []assignment                    // wait for the end of these
}

// ownerState survives a crash of the actor.
type ownerState struct {
	section      *values.Section
	converged    convergedValues
	hooks        []hooks.Hook
	synchronized map[messages.BindingKey]bool
	deferred     map[messages.BindingKey]bool // nobody waits for these
	limits       limits
}

// convergedValues are the values at the end of the last converge, which people compare with.
type convergedValues struct {
	section *values.Section
	at      time.Time
}

// application is a hook result on its way to become values.
type application struct {
	msg  messages.ApplyHookResult
	from *actor.PID
	base *values.Section // what the patches were applied to
	next *values.Section // what will be the section
}

func newOwner(p *program, name, workingDir string, state *ownerState) *owner {
	log := p.Log
	if name != messages.GlobalHooks {
		log = log.With("module", name)
	}
	return &owner{
		Runs: supervisor.NewRuns(p.System, log), program: p, name: name, log: log, state: state,
		workingDir: workingDir, queued: map[string]bool{}, failing: map[string]messages.FailingTask{}, parked: map[string]bool{}, alone: map[string]bool{},
	}
}

// receive handles the messages that all owners understand; self does what differs. It
// reports whether the message was one of them.
func (o *owner) receive(ctx actor.Context, self applier) bool {
	if o.Runs.Receive(ctx) {
		return true
	}
	switch msg := ctx.Message().(type) {
	case messages.ApplyHookResult:
		o.applyHookResult(ctx, self, application{msg: msg, from: ctx.Sender()})
	case messages.ConfigSaved:
		o.configSaved(ctx, self, msg)
	case messages.SetConfig:
		o.setConfig(msg)
	case messages.BindingSynchronized:
		o.bindingSynchronized(ctx, self, msg)
	case messages.BindingDeferred:
		o.state.deferred[msg.Binding] = true
		o.answerAwaiting(ctx)
	case messages.AwaitSynchronized:
		o.awaitSynchronized(ctx)
	case messages.RetryNow:
		o.retryNow()
	case messages.RememberValues:
		o.state.converged = convergedValues{o.state.section, time.Now()}
	default:
		return false
	}
	return true
}

// applier is where owners differ: what a patch may touch, and what follows a change.
type applier interface {
	// patches checks what the patches of a hook touch and returns the parts for the section.
	patches(hooks.Result) (config, memory values.Patch, flags flagChanges, err error)
	// committed is called after a result has become values.
	committed(ctx actor.Context, msg messages.ApplyHookResult, changed bool, flags flagChanges)
	// late is called when a deferred Synchronization has succeeded: what was done without
	// that hook is done again.
	late(ctx actor.Context, cause messages.Cause)
}

// flagChanges are the opinions of a global hook on enabled modules (D25).
type flagChanges struct {
	config, memory []values.Flag
	// configChanged: the ConfigMap said something else before.
	configChanged bool
}

// applyHookResult is step 3 of a task's way: check everything, then commit (D26).
func (o *owner) applyHookResult(ctx actor.Context, self applier, a application) {
	if o.applying != nil {
		o.waiting = append(o.waiting, a)
		return
	}
	config, memory, flags, err := self.patches(a.msg.Result)
	if err == nil {
		a.base = o.state.section
		a.next, err = o.patched(config, memory, a.msg.Origin)
	}
	if err != nil {
		o.program.Send(a.from, messages.HookResultApplied{Err: fmt.Errorf("hook %s: its result is refused: %w", a.msg.Hook, err)})
		return
	}
	configChanged := len(config) > 0 && values.Checksum(a.next.Config()) != values.Checksum(o.state.section.Config())
	if !configChanged && len(flags.config) == 0 {
		o.commit(ctx, self, a, false)
		return
	}
	save := messages.SaveConfig{Flags: flags.config}
	if configChanged {
		save.Key, save.Section, save.Base = o.state.section.Key(), a.next.Config(), values.Checksum(o.state.section.Config())
	}
	o.applying = &a
	ctx.Request(o.program.PID(configPath), save)
}

// patched applies both patches to the section and validates the result with both
// schemas (D36).
func (o *owner) patched(config, memory values.Patch, by values.Origin) (*values.Section, error) {
	next, err := o.state.section, error(nil)
	if len(config) > 0 {
		if next, err = next.PatchConfig(config, by); err != nil {
			return nil, fmt.Errorf("config values patch: %w", err)
		}
		if err := next.ValidateConfig(); err != nil {
			return nil, fmt.Errorf("config values patch: %w", err)
		}
	}
	if len(memory) > 0 {
		if next, err = next.Patch(memory, by); err != nil {
			return nil, fmt.Errorf("values patch: %w", err)
		}
	}
	if next != o.state.section {
		if err := next.ValidateValues(); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// configSaved continues with the result that waited for the ConfigMap.
func (o *owner) configSaved(ctx actor.Context, self applier, msg messages.ConfigSaved) {
	a := o.applying
	if a == nil {
		return // the answer to a question from before a crash
	}
	o.applying = nil
	switch {
	case msg.Conflict: // the new section has arrived before this answer
		o.applyHookResult(ctx, self, *a)
	case msg.Err != nil:
		o.program.Send(a.from, messages.HookResultApplied{Err: fmt.Errorf("hook %s: save config values: %w", a.msg.Hook, msg.Err)})
	default:
		o.commitSaved(ctx, self, *a, msg.FlagsChanged)
	}
	for o.applying == nil && len(o.waiting) > 0 {
		next := o.waiting[0]
		o.waiting = o.waiting[1:]
		o.applyHookResult(ctx, self, next)
	}
}

// commitSaved commits what has been written. While only flags were written, the section
// may have got new config values; then the patches are applied to those.
func (o *owner) commitSaved(ctx actor.Context, self applier, a application, flagsChanged bool) {
	if a.base != o.state.section {
		config, memory, _, err := self.patches(a.msg.Result)
		if err == nil {
			a.next, err = o.patched(config, memory, a.msg.Origin)
		}
		if err != nil {
			o.program.Send(a.from, messages.HookResultApplied{Err: fmt.Errorf("hook %s: its result is refused: %w", a.msg.Hook, err)})
			return
		}
	}
	o.commit(ctx, self, a, flagsChanged)
}

func (o *owner) commit(ctx actor.Context, self applier, a application, flagsChanged bool) {
	changed := a.next.Checksum() != o.state.section.Checksum() // D27
	o.state.section = a.next
	_, _, flags, _ := self.patches(a.msg.Result)
	flags.configChanged = flagsChanged
	o.program.Send(a.from, messages.HookResultApplied{})
	self.committed(ctx, a.msg, changed, flags)
}

// setConfig replaces the ConfigMap layer; saved patches are replayed over it (D22).
func (o *owner) setConfig(msg messages.SetConfig) {
	next, err := o.state.section.WithConfig(msg.Section, msg.Origin)
	if err != nil { // the config actor has checked the section: only a saved patch can be in the way
		o.log.Error("saved values patches do not fit the new config values; they are dropped", "err", err)
		if next, err = o.state.section.WithoutPatches().WithConfig(msg.Section, msg.Origin); err != nil {
			o.log.Error("new config values are refused", "err", err)
			return
		}
	}
	o.state.section = next
}

// values answers GetValues.
func (o *owner) values() messages.Values {
	return messages.Values{Section: o.state.section, Converged: o.state.converged.section, ConvergedAt: o.state.converged.at}
}

// hook finds a hook by its name.
func (o *owner) hook(name string) (hooks.Hook, error) {
	i := slices.IndexFunc(o.state.hooks, func(h hooks.Hook) bool { return h.Name == name })
	if i < 0 {
		return hooks.Hook{}, fmt.Errorf("hook %s is not loaded", name)
	}
	return o.state.hooks[i], nil
}

// job makes what a run needs to run hooks of this owner.
func (o *owner) job(t messages.Task) job {
	return job{program: o.program, owner: o.name, workingDir: o.workingDir, task: t, log: o.log, limits: &o.state.limits}
}

// assignment is a task with what a run must do for it.
type assignment struct {
	task  messages.Task
	queue *actor.PID
	work  func(*supervisor.Run) (any, error)
	// succeeded, failed and cancelled are optional.
	succeeded func(actor.Context, any)
	failed    func(supervisor.Attempt)
	cancelled func(actor.Context)
	// parks: after its first failure the queue goes on without it (policy isolate).
	parks bool
}

// start gives a task to a run. The queue hears of its end exactly once.
func (o *owner) start(ctx actor.Context, a assignment) {
	t := a.task
	o.Runs.Start(ctx, supervisor.Task{
		ID: t.ID, AllowFailure: t.AllowFailure, Work: a.work, Succeeded: a.succeeded,
		Failed: func(at supervisor.Attempt) {
			o.noteFailure(t, at)
			if a.failed != nil {
				a.failed(at)
			}
			if a.parks && !o.parked[t.ID] {
				o.parked[t.ID] = true
				o.log.Warn("module is parked: it is retried beside the queue, the others go on")
				o.program.Send(a.queue, messages.TaskDone{ID: t.ID})
			}
		},
		Ended: func(ctx actor.Context, outcome supervisor.Outcome) {
			o.unqueued(t)
			if a.cancelled != nil && outcome == supervisor.Cancelled {
				a.cancelled(ctx)
			}
			delete(o.failing, t.ID)
			switch lost := outcome == supervisor.Interrupted; {
			case !o.parked[t.ID]:
				ctx.Send(a.queue, messages.TaskDone{ID: t.ID, Lost: lost})
			case lost: // nobody waits for it who would ask again
				again := t
				again.ID = o.program.newTaskID()
				o.program.enqueue(ctx, false, again)
			}
			delete(o.parked, t.ID)
			delete(o.alone, t.ID)
			o.startNext(ctx)
		},
	})
}

// startAlone starts a task that needs the release of the module for itself. What is left
// of an earlier one is cancelled first: nobody waits for it any more, because it is
// parked, or because the task that waited for it was interrupted.
func (o *owner) startAlone(ctx actor.Context, a assignment) {
	if o.Has(a.task.ID) { // a queue asks again after a crash
		return
	}
	o.next = append(o.next, a)
	for id := range o.alone {
		o.Cancel(ctx, id)
	}
	o.startNext(ctx)
}

// startNext starts the latest of the tasks that wait for the release; the ones before it
// would only do the same with older values.
func (o *owner) startNext(ctx actor.Context) {
	if len(o.alone) > 0 || len(o.next) == 0 {
		return
	}
	waiting := o.next
	o.next = nil
	if o.Ending() { // whoever waits for them asks again
		for _, a := range waiting {
			ctx.Send(a.queue, messages.TaskDone{ID: a.task.ID, Lost: true})
		}
		return
	}
	last := len(waiting) - 1
	for _, a := range waiting[:last] {
		ctx.Send(a.queue, messages.TaskDone{ID: a.task.ID})
	}
	o.alone[waiting[last].task.ID] = true
	o.start(ctx, waiting[last])
}

// dropNext ends the tasks that have not begun.
func (o *owner) dropNext(ctx actor.Context) {
	for _, a := range o.next {
		ctx.Send(a.queue, messages.TaskDone{ID: a.task.ID})
	}
	o.next = nil
}

// noteFailure logs a failed attempt and shows it in the status.
func (o *owner) noteFailure(t messages.Task, a supervisor.Attempt) {
	o.logFailure(t, a)
	kind, about := t.Work.Describe()
	o.failing[t.ID] = messages.FailingTask{
		Task: strings.TrimSpace(kind + " " + about), Attempts: a.Number, RetryAt: time.Now().Add(a.In), Error: a.Err.Error(),
	}
}

// refuse answers a task that is not executed.
func refuse(ctx actor.Context, t messages.Task) {
	ctx.Send(ctx.Sender(), messages.TaskDone{ID: t.ID})
}

func (o *owner) logFailure(t messages.Task, a supervisor.Attempt) {
	kind, about := t.Work.Describe()
	log := o.log.With("task", kind, "queue", t.Queue, "attempt", a.Number, "err", a.Err)
	if about != "" {
		log = log.With("about", about)
	}
	if a.Final {
		log.Warn("task failed; its failure is allowed")
		return
	}
	log.Error("task failed, will retry", "in", a.In)
}

// listFailing lists the tasks that wait for another attempt.
func (o *owner) listFailing() []messages.FailingTask {
	var list []messages.FailingTask
	for _, id := range slices.Sorted(maps.Keys(o.failing)) {
		list = append(list, o.failing[id])
	}
	return list
}

func (o *owner) retryNow() {
	if n := o.RetryNow(); n > 0 {
		o.log.Info("configuration has changed: failed tasks are tried again now", "tasks", n)
	}
}

// bindingSynchronized notes that a binding needs no further Synchronization run.
func (o *owner) bindingSynchronized(ctx actor.Context, self applier, msg messages.BindingSynchronized) {
	o.state.synchronized[msg.Binding] = true
	delete(o.state.deferred, msg.Binding)
	if msg.Late {
		self.late(ctx, messages.Cause{Activation: messages.BySync, Detail: msg.Binding.Hook})
	}
	o.answerAwaiting(ctx)
}

// awaitSynchronized queues what is missing in named queues and remembers who waits.
func (o *owner) awaitSynchronized(ctx actor.Context) {
	o.awaiting = append(o.awaiting, ctx.Sender())
	for _, hook := range o.state.hooks {
		for _, w := range synchronizations(hook) {
			queue := hook.Config.Kubernetes[w.Bindings[0]].Queue
			if queue == hooks.MainQueue || o.queued[queuedKey(w)] || o.allSynchronized(hook, w) {
				continue
			}
			o.queued[queuedKey(w)] = true
			t := o.program.task(o.name, w, messages.Cause{Activation: messages.BySync})
			t.Queue = queue
			o.program.enqueue(ctx, false, t)
		}
	}
	o.answerAwaiting(ctx)
}

func (o *owner) answerAwaiting(ctx actor.Context) {
	for _, hook := range o.state.hooks {
		for i, b := range hook.Config.Kubernetes {
			key := bindingKey(hook, i)
			if b.WaitForSynchronization && b.Queue != hooks.MainQueue && !o.state.synchronized[key] && !o.state.deferred[key] {
				return
			}
		}
	}
	for _, pid := range o.awaiting {
		ctx.Send(pid, messages.AllSynchronized{})
	}
	o.awaiting = nil
}

func (o *owner) allSynchronized(hook hooks.Hook, w messages.SynchronizeHook) bool {
	return !slices.ContainsFunc(w.Bindings, func(i int) bool { return !o.state.synchronized[bindingKey(hook, i)] })
}

// unqueued notes that a Synchronization task has ended, or was dropped.
func (o *owner) unqueued(t messages.Task) {
	if w, ok := t.Work.(messages.SynchronizeHook); ok {
		delete(o.queued, queuedKey(w))
	}
}

func queuedKey(w messages.SynchronizeHook) string { return fmt.Sprint(w.Hook, w.Bindings) }

func bindingKey(hook hooks.Hook, i int) messages.BindingKey {
	return messages.BindingKey{Hook: hook.Name, Index: i}
}

// synchronizations are the Synchronization runs of a hook: one for each binding, in the
// order of definition, and one for all bindings of a group that share a queue (C41, X24).
func synchronizations(hook hooks.Hook) []messages.SynchronizeHook {
	var out []messages.SynchronizeHook
	byGroup := map[string]int{}
	for i, b := range hook.Config.Kubernetes {
		if b.Group != "" {
			key := b.Group + "\x00" + b.Queue
			if at, ok := byGroup[key]; ok {
				out[at].Bindings = append(out[at].Bindings, i)
				out[at].Names = append(out[at].Names, b.Name)
				continue
			}
			byGroup[key] = len(out)
		}
		out = append(out, messages.SynchronizeHook{Hook: hook.Name, Bindings: []int{i}, Names: []string{b.Name}})
	}
	return out
}

// errNoSuchWork is a mistake of ours: a task came to an owner that cannot do it.
var errNoSuchWork = errors.New("bug: this owner cannot do this work")
