package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"addon-operator/actors/decide"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/kube/objectpatch"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// Job is the work of one task as a run does it. The owner makes it once for a task, and the run
// copies it freely; what its pointers lead to is shared by all attempts and copies.
type Job struct {
	*Shared
	Owner      string
	WorkingDir string // of its hooks
	Task       messages.Task
	// Known is what the owner has handed over last. The owner writes it before an attempt begins,
	// the run with each answer; nil for converge, which hands over nothing.
	Known      *Known
	Log        *slog.Logger
	Limits     *Limits     // of the owner
	Unfinished *Unfinished // of the owner
}

// HookJob is the part of a job that runs one hook. It is a value: execute replaces run in its copy
// by one that is in the span of the hook.
type HookJob struct {
	job  Job
	run  *supervisor.Run
	hook hooks.Hook
}

// Hook is the part of the job that runs a hook.
func (j Job) Hook(run *supervisor.Run, hook hooks.Hook) HookJob { return HookJob{j, run, hook} }

// Run is the work of a RunHook task. Synchronizations that replace events come first; each
// has a run of its own (C41).
func (h HookJob) Run(w messages.RunHook) error {
	if _, done := h.job.Unfinished.take(h.job.Task.ID, h.hook, triggersStep(w.Binding)); done {
		return nil
	}
	for _, b := range w.Resync {
		if b.Index >= len(h.hook.Config.Kubernetes) || h.hook.Config.Kubernetes[b.Index].Name != b.Name {
			continue // the module was disabled and enabled, with another hook; its start has synchronized it
		}
		work := messages.SynchronizeHook{Hook: h.hook.Name, Bindings: []int{b.Index}, Names: []string{b.Name}, Again: true, Instead: true}
		if err := h.Synchronize(work); err != nil {
			return err
		}
	}
	if len(w.Triggers) == 0 {
		return nil
	}
	var left messages.RunHook
	err := h.alone(func() (err error) {
		left, err = h.serve(w)
		return err
	})
	if err != nil || left.Hook == "" {
		return err
	}
	return h.Run(left) // with fewer triggers, and a Synchronization for those that are gone
}

// serve runs the hook for its triggers. If they carry too much, it returns the work that is left instead.
func (h HookJob) serve(w messages.RunHook) (left messages.RunHook, err error) {
	snapshots, err := h.snapshotsFor(w.Triggers)
	if waiting, ok := errors.AsType[*waitingError](err); ok {
		h.skip(w, err, waiting.resync)
		return left, nil
	}
	if err != nil {
		return left, err
	}
	triggers := w.Binding == hooks.OnSchedule || w.Binding == hooks.OnKubernetes
	done := len(w.Resync) // they have run above
	w, dropped := Limited(w, len(w.Triggers), maxContexts, inFile(snapshots))
	if len(dropped) > 0 {
		h.job.Overflowed(h.job.Task, dropped)
		w.Resync = w.Resync[done:]
		return w, nil
	}
	return left, h.execute(w.Binding, contexts(w.Triggers, snapshots), triggers, effects{hook: h.hook, step: triggersStep(w.Binding)})
}

// inFile returns how many bytes a context takes in BINDING_CONTEXT_PATH.
func inFile(snapshots messages.Snapshots) func(messages.Trigger) int {
	sizes := map[string]int{}
	for _, b := range snapshots.Bindings {
		for _, o := range b.Objects {
			sizes[b.Name] += len(o.Object) + len(o.FilterResult)
		}
	}
	return func(t messages.Trigger) int {
		n := Held(t)
		for _, name := range t.Snapshots {
			n += sizes[name]
		}
		return n
	}
}

// skip leaves out a hook one of whose snapshots cannot be complete for now: it must not delay
// others, and must not take an incomplete snapshot for a complete one. When the snapshots are
// complete, the module (or the reload) that is due then runs its order hooks again, and a Synchronization shows what
// events would have shown; the next tick comes by itself (C17). If a Synchronization of all bindings is
// due (resync), that causes the module run or reload, too.
func (h HookJob) skip(w messages.RunHook, reason error, resync bool) {
	h.job.Log.Warn("hook is skipped: one of its bindings has no complete snapshot", "hook", h.hook.Name, "binding", w.Binding, "err", reason)
	if w.Binding != hooks.OnSchedule && w.Binding != hooks.OnKubernetes {
		w.Triggers = nil
	}
	due := Synchronizations(h.hook)
	for i, s := range due {
		shows := func(t messages.Trigger) bool {
			return t.Binding == hooks.OnKubernetes && slices.Contains(s.Bindings, t.Index)
		}
		s.Again, s.Instead, s.Late = true, slices.ContainsFunc(w.Triggers, shows), w.Triggers == nil && i == len(due)-1
		if !resync && (s.Instead || s.Late) {
			h.later(s)
		}
	}
}

// later has a Synchronization queued when the snapshots of the hook are complete.
func (h HookJob) later(w messages.SynchronizeHook) {
	queue := h.hook.Config.Kubernetes[w.Bindings[0]].Queue
	h.run.Tell(MonitorsPath, messages.SynchronizeLater{Owner: h.job.Owner, Queue: queue, Hook: h.hook, Work: w})
}

// order runs a hook for one of its order bindings.
func (h HookJob) order(binding hooks.BindingType) error {
	return h.Run(OrderWork(h.hook, binding))
}

// OrderWork is the work of an order binding: one context with the snapshots of all
// kubernetes bindings of the hook (C31).
func OrderWork(hook hooks.Hook, binding hooks.BindingType) messages.RunHook {
	return messages.RunHook{Hook: hook.Name, Binding: binding, Triggers: []messages.Trigger{{
		Context:   hooks.Context{Binding: string(binding)},
		Snapshots: hook.Config.OrderSnapshots(binding),
	}}}
}

// snapshotsFor takes the snapshots that any of the triggers asks for, once, now (C35). Without such
// a trigger it asks nothing: a hook need not wait for bindings whose objects it is not shown.
func (h HookJob) snapshotsFor(triggers []messages.Trigger) (messages.Snapshots, error) {
	if !slices.ContainsFunc(triggers, func(t messages.Trigger) bool { return len(t.Snapshots) > 0 }) {
		return messages.Snapshots{}, nil
	}
	return h.snapshots(messages.Synchronization{})
}

// contexts completes the triggers with snapshots, which they share.
func contexts(triggers []messages.Trigger, snapshots messages.Snapshots) []hooks.Context {
	list := make([]hooks.Context, 0, len(triggers))
	for _, t := range triggers {
		c := t.Context
		c.Snapshots = pick(snapshots, t.Snapshots)
		list = append(list, c)
	}
	return hooks.Compact(list)
}

// pick returns the snapshots of the bindings with the given names. A name without objects has an
// entry, as C31 asks; nil names give nil, which leaves out the key.
func pick(snapshots messages.Snapshots, names []string) map[string][]hooks.Object {
	if names == nil {
		return nil
	}
	picked := make(map[string][]hooks.Object, len(names))
	for _, name := range names {
		picked[name] = nil // present, also without objects
	}
	for _, b := range snapshots.Bindings {
		if _, wanted := picked[b.Name]; wanted {
			picked[b.Name] = concat(picked[b.Name], b.Objects)
		}
	}
	return picked
}

// concat shares the list of a single binding: snapshots can be large.
func concat(a, b []hooks.Object) []hooks.Object {
	if len(a) == 0 {
		return b
	}
	return slices.Concat(a, b)
}

// snapshots waits until all bindings of the hook are complete, then takes the values of the owner
// again: the wait may have been long.
func (h HookJob) snapshots(synchronization messages.Synchronization) (messages.Snapshots, error) {
	h.run.Step("%s: wait for snapshots", h.hook.Name)
	got, err := supervisor.Ask[messages.Snapshots](h.run, MonitorsPath, messages.GetSnapshots{Owner: h.job.Owner, Hook: h.hook, Synchronization: synchronization})
	if err == nil {
		err = got.Err
	}
	if err == nil && got.Waiting != "" {
		err = &waitingError{got.Waiting, got.Resync}
	}
	if err != nil {
		return got, fmt.Errorf("hook %s: snapshots: %w", h.hook.Name, err)
	}
	return got, h.job.ask(h.run, HandOver{}) // that may have taken a while
}

// waitingError says that a snapshot cannot be complete for now.
type waitingError struct {
	reason string
	resync bool // as in [messages.Snapshots]
}

// Error implements error.
func (e *waitingError) Error() string { return e.reason }

// Synchronize runs a hook for the objects that exist already, and lets the events of these bindings
// through afterwards (C40). A failure that the binding allows counts as a success (F12). The
// monitors hold the events until SynchronizationEnded, so every way out sends it, unless a retry continues this very
// Synchronization.
func (h HookJob) Synchronize(w messages.SynchronizeHook) error {
	if e, done := h.job.Unfinished.take(h.job.Task.ID, h.hook, synchronizationStep(w)); done {
		h.synchronized(w, e)
		return nil
	}
	return h.alone(func() error { return h.synchronize(w) })
}

// synchronize is Synchronize for a hook that is not running.
func (h HookJob) synchronize(w messages.SynchronizeHook) error {
	synchronization := messages.Synchronization{Run: h.job.shows.Add(1)}
	for _, i := range w.Bindings {
		synchronization.Bindings = append(synchronization.Bindings, BindingKey(h.hook, i))
	}
	e := effects{hook: h.hook, step: synchronizationStep(w), synchronization: synchronization}
	opened := false
	defer func() {
		if _, due := h.job.Unfinished.due(h.job.Task.ID); !opened && !due { // else the next attempt goes on, and its events stay held
			h.run.Tell(MonitorsPath, messages.SynchronizationEnded{Owner: h.job.Owner, Synchronization: synchronization})
		}
	}()
	snapshots, err := h.snapshots(synchronization)
	if waiting, ok := errors.AsType[*waitingError](err); ok {
		h.postpone(w, waiting)
		return nil
	}
	if err != nil {
		return err
	}
	for _, i := range w.Bindings {
		shown := snapshots.Bindings[i]
		watch := messages.WatchKey{Owner: h.job.Owner, Binding: BindingKey(h.hook, i)}
		e.shown = append(e.shown, messages.Shown{Watch: watch, Instance: shown.Instance, Seen: shown.Seq})
	}
	first := h.hook.Config.Kubernetes[w.Bindings[0]]
	e.allowFailure = first.AllowFailure
	if w.Instead || slices.ContainsFunc(w.Bindings, func(i int) bool { return h.hook.Config.Kubernetes[i].ExecuteOnSynchronization }) {
		c := synchronizationContext(first, snapshots, w.Bindings[0])
		h.job.Task.AllowFailure = first.AllowFailure // a copy; the task may be a module run, which allows nothing
		err := h.execute(hooks.OnKubernetes, []hooks.Context{c}, w.Late || w.Again, e)
		if cause := context.Cause(h.run.Context()); cause != nil {
			return cause // the hook was killed, which is no failure that may be allowed
		}
		if err != nil && !first.AllowFailure {
			return err
		}
		if err != nil {
			h.job.Unfinished.End(h.job.Task.ID)
			h.allowed(first.Name, err)
		}
	}
	opened = true
	h.synchronized(w, e)
	return nil
}

// allowed logs that a Synchronization has failed and that its binding allows it. The owner logs
// only failures of tasks, and a Synchronization may be a part of a module run.
func (h HookJob) allowed(binding string, err error) {
	h.job.Log.Warn("hook failed at Synchronization; its failure is allowed", "hook", h.hook.Name, "binding", binding, "err", err)
}

// synchronized ends a Synchronization that has succeeded: events go through that the hook has not seen.
func (h HookJob) synchronized(w messages.SynchronizeHook, e effects) {
	h.run.Tell(MonitorsPath, messages.SynchronizationEnded{Owner: h.job.Owner, Synchronization: e.synchronization, Shown: e.shown})
	for _, shown := range e.shown {
		h.run.Tell(OwnerPath(h.job.Owner), messages.BindingSettled{Binding: shown.Watch.Binding, Late: w.Late, Task: h.job.Task.ID})
	}
}

// postpone defers a Synchronization until its bindings are complete, so that nothing else waits for
// it. Late: the module continues without this hook and so has to run again afterwards.
func (h HookJob) postpone(w messages.SynchronizeHook, reason error) {
	h.job.Log.Warn("Synchronization of a hook is deferred; other hooks do not wait for it", "hook", h.hook.Name, "bindings", w.Names, "err", reason)
	w.Late = w.Late || !w.Again // else nothing went on without it
	h.later(w)
	for _, i := range w.Bindings {
		h.run.Tell(OwnerPath(h.job.Owner), messages.BindingSettled{Binding: BindingKey(h.hook, i), Deferred: true, Task: h.job.Task.ID})
	}
}

// synchronizationContext is the context of a Synchronization (C31). All bindings of a group share
// one, which has snapshots in place of objects (C34); b, with the index i, is the first of them.
func synchronizationContext(b hooks.KubernetesBinding, snapshots messages.Snapshots, i int) hooks.Context {
	c := hooks.Context{Binding: b.Name, Type: hooks.TypeSynchronization, Objects: snapshots.Bindings[i].Objects}
	if b.Group != "" {
		c = hooks.Context{Binding: b.Name, Type: hooks.TypeGroup, GroupName: b.Group}
	}
	if len(b.Snapshots) > 0 {
		c.Snapshots = pick(snapshots, b.Snapshots)
	}
	return c
}

// execute runs a hook once, has its result applied, and counts the end as exactly one of success,
// error and allowed error. A hook that was killed with its module or the operator is not counted:
// it has not failed.
func (h HookJob) execute(binding hooks.BindingType, contexts []hooks.Context, triggers bool, e effects) (err error) {
	var s Span
	h.run, s = h.job.span(h.run, "hook run", about{hook: h.hook.Name, binding: contexts[0].Binding})
	defer func() { s.End(err) }()
	prepared, err := h.prepare(binding, contexts)
	if err != nil {
		return err
	}
	var used hooks.Usage
	outcome := errors.New("bug: it panicked") // until it returns
	defer func() {
		if outcome == nil || h.run.Context().Err() == nil {
			h.job.Metrics.Hooks.Ended(h.job.Owner, h.hook.Name, contexts[0].Binding, h.job.Task, used, outcome)
		}
	}()
	outcome = h.runAndApply(prepared, binding, triggers, &used, e)
	return outcome
}

// runAndApply runs a hook and applies its result (D26). What can be checked without writing is
// checked before anything has an effect. Then come ConfigMap, values and flags (in the owner),
// objects and metrics (here). A failure before the commit leaves nothing behind. What fails after
// it is kept with the task, and a retry continues there without running the hook again (D26).
func (h HookJob) runAndApply(prepared hooks.Run, binding hooks.BindingType, triggers bool, used *hooks.Usage, e effects) error {
	result, err := h.process(prepared, binding)
	*used = result.Usage
	if err != nil {
		return errors.Join(err, h.patchDespite(result))
	}
	if e.objects, err = h.objectPatches(result); err != nil {
		return err
	}
	if err := h.checkObjects(e.objects); err != nil {
		return fmt.Errorf("hook %s: its result is refused: object patches: %w", h.hook.Name, err)
	}
	if err := h.job.Metrics.Reports.Check(result.Metrics); err != nil {
		return fmt.Errorf("hook %s: its result is refused: %w", h.hook.Name, err)
	}
	e.metrics = result.Metrics
	h.job.Unfinished.begin(h.job.Task.ID, e)
	err = h.job.ask(h.run, messages.ApplyHookResult{
		Hook: h.hook.Name, Binding: binding, Triggers: triggers,
		Cause:  messages.By(messages.ByHook, h.hook.Name, h.job.Task.Cause).In(traceOf(h.run)),
		Result: result, Origin: values.Origin{Hook: h.hook.Name, Task: h.job.Task.ID, Time: time.Now()},
	})
	if err != nil {
		return err
	}
	if err := h.finish(e); err != nil {
		return err
	}
	h.job.Unfinished.End(h.job.Task.ID)
	return nil
}

// objectPatches parses the whole file before any of it has an effect (K1).
func (h HookJob) objectPatches(result hooks.Result) ([]objectpatch.Patch, error) {
	objects, err := objectpatch.Parse(result.ObjectPatches, h.job.JQLibrary...)
	if err != nil {
		return nil, fmt.Errorf("hook %s: its result is refused: KUBERNETES_PATCH_PATH: %w", h.hook.Name, err)
	}
	return objects, nil
}

// checkObjects refuses what cannot be right, such as an unknown kind, without writing (D26, K7).
func (h HookJob) checkObjects(objects []objectpatch.Patch) error {
	if len(objects) == 0 {
		return nil
	}
	return h.job.Objects.CheckObjectPatches(h.run.Context(), objects)
}

// patchObjects executes operations and returns those that have failed, which a retry repeats.
func (h HookJob) patchObjects(objects []objectpatch.Patch) (left []objectpatch.Patch, err error) {
	if len(objects) == 0 {
		return nil, nil
	}
	h.run.Step("%s: %d object patches", h.hook.Name, len(objects))
	about := []any{"hook", h.hook.Name}
	if h.job.Owner != messages.GlobalHooks {
		about = append([]any{"module", h.job.Owner}, about...)
	}
	left, err = h.job.Objects.ApplyObjectPatches(kube.WithAbout(h.run.Context(), about...), objects)
	if err != nil {
		return left, fmt.Errorf("hook %s: object patches: %w", h.hook.Name, err)
	}
	return nil, nil
}

// patchDespite applies the operations of a failed hook that have ignoreHookError, for example one
// that writes the failure into a status (K9).
func (h HookJob) patchDespite(result hooks.Result) error {
	objects, err := h.objectPatches(result)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(p objectpatch.Patch) bool { return !p.IgnoreHookError })
	if err := h.checkObjects(objects); err != nil {
		return fmt.Errorf("hook %s: object patches: %w", h.hook.Name, err)
	}
	_, err = h.patchObjects(objects)
	return err
}

// prepare waits until the rate limit of the hook allows a run (C10), and takes the values as they
// are then.
func (h HookJob) prepare(binding hooks.BindingType, contexts []hooks.Context) (hooks.Run, error) {
	if limit := h.job.Limits.of(h.hook); limit != nil && !limit.Allow() {
		h.run.Step("%s: waits for its turn (executionMinInterval)", h.hook.Name)
		if err := limit.Wait(h.run.Context()); err != nil {
			return hooks.Run{}, fmt.Errorf("hook %s: wait for its turn: %w", h.hook.Name, err)
		}
		if err := h.job.ask(h.run, HandOver{}); err != nil {
			return hooks.Run{}, err
		}
	}
	h.run.Step("%s: %s", h.hook.Name, binding)
	merged, config := h.job.Known.Values()
	if h.job.Owner != messages.GlobalHooks {
		merged[values.GlobalKey] = decide.WithEnabledModules(merged[values.GlobalKey], h.job.Known.Enabled)
	}
	return hooks.Run{
		Hook: h.hook, WorkingDir: h.job.WorkingDir, Contexts: contexts, Values: merged, ConfigValues: config,
		Labels: h.job.labels(h.hook.Name, contexts[0].Binding), Env: traceEnvironment(h.run),
	}, nil
}

// process runs the executable, and notifies everyone who watches over hooks: the report of hanging
// ones, and HookRan. The result is returned with an
// error, too: it has the usage, and patches that are applied despite the failure (K9).
func (h HookJob) process(prepared hooks.Run, binding hooks.BindingType) (hooks.Result, error) {
	defer h.job.hookBegins(h.hook, prepared.Contexts[0].Binding)()
	began := time.Now()
	result, err := h.job.Hooks.Run(h.run.Context(), prepared)
	if h.job.HookRan != nil && h.run.Context().Err() == nil { // else it was ended
		h.job.HookRan(view.HookRun{
			Owner: h.job.Owner, Hook: h.hook.Name, Queue: h.job.Task.Queue, Task: h.job.Task.ID, Binding: binding, Contexts: prepared.Contexts, Cause: h.job.Task.Cause,
			Took: time.Since(began), Err: err, Output: result.Output,
		})
	}
	for _, warning := range result.Warnings {
		h.job.Log.Warn(warning, "hook", h.hook.Name)
	}
	return result, err
}

// labels are the attributes of log lines that a hook prints (C27).
func (j Job) labels(hook, binding string) []slog.Attr {
	labels := []slog.Attr{slog.String("hook", hook), slog.String("binding", binding), slog.String("queue", j.Task.Queue), slog.String("task", j.Task.ID)}
	if j.Owner != messages.GlobalHooks {
		labels = append([]slog.Attr{slog.String("module", j.Owner)}, labels...)
	}
	return labels
}

// AwaitSynchronized is the work of an AwaitSynchronization task, which keeps the first beforeAll
// from running before the Synchronizations of global hooks in all queues (F14).
func (j Job) AwaitSynchronized(run *supervisor.Run) (err error) {
	run.Step("wait for Synchronization in other queues")
	run, s := j.span(run, "wait for synchronization", about{})
	defer func() { s.End(err) }()
	return j.ask(run, messages.AwaitSynchronized{Task: j.Task.ID, Trace: traceOf(run)})
}
