package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

// Job is the work of one task as a run does it.
type Job struct {
	*Shared
	Owner      string
	WorkingDir string // of its hooks
	Task       messages.Task
	Known      *Known // what the owner has handed over last
	Log        *slog.Logger
	Limits     *Limits
	Unfinished *Unfinished
	Parts      *Parts // what the task spends its time on; nil: it is not kept
}

// RunHook is the work of a RunHook task. Synchronizations that replace events come first; each
// has a run of its own (C41).
func (j Job) RunHook(run *supervisor.Run, hook hooks.Hook, w messages.RunHook) error {
	if _, done := j.Unfinished.take(j.Task.ID, hook, triggersStep(w.Binding)); done {
		return nil
	}
	for _, b := range w.Resync {
		if b.Index >= len(hook.Config.Kubernetes) || hook.Config.Kubernetes[b.Index].Name != b.Name {
			continue // the module was disabled and enabled, with another hook; its start has synchronized it
		}
		work := messages.SynchronizeHook{Hook: hook.Name, Bindings: []int{b.Index}, Names: []string{b.Name}, Again: true, Instead: true}
		if err := j.Synchronize(run, hook, work); err != nil {
			return err
		}
	}
	if len(w.Triggers) == 0 {
		return nil
	}
	snapshots, err := j.snapshotsFor(run, hook, w.Triggers)
	var waiting *waitingError
	if errors.As(err, &waiting) {
		j.skip(run, hook, w, err, waiting.resync)
		return nil
	}
	if err != nil {
		return err
	}
	triggers := w.Binding == hooks.OnSchedule || w.Binding == hooks.OnKubernetes
	done := len(w.Resync)
	w, dropped := Limited(w, len(w.Triggers), maxContexts, inFile(snapshots))
	if len(dropped) > 0 {
		j.Overflowed(j.Task, dropped)
		w.Resync = w.Resync[done:]
		return j.RunHook(run, hook, w)
	}
	return j.execute(run, w.Binding, contexts(w.Triggers, snapshots), triggers, effects{hook: hook, step: triggersStep(w.Binding)})
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

// skip passes over a hook one of whose snapshots cannot be complete for now: it must not
// delay others, and must not take a snapshot for complete that is not. When they are complete,
// order hooks run again with the module, or the reload, that is due then, and what events and
// ticks have triggered runs (C17). A Synchronization of all bindings, when that is due, stands
// for the events, and brings the module, or the reload, too.
func (j Job) skip(run *supervisor.Run, hook hooks.Hook, w messages.RunHook, reason error, resync bool) {
	j.Log.Warn("hook is skipped: one of its bindings has no complete snapshot", "hook", hook.Name, "binding", w.Binding, "err", reason)
	if w.Binding != hooks.OnSchedule && w.Binding != hooks.OnKubernetes {
		if !resync {
			run.Tell(MonitorsPath, messages.AwaitSnapshots{Owner: j.Owner, Hook: hook.Name})
		}
		return
	}
	w.Resync = nil // these were deferred one by one
	if resync {
		w.Triggers = slices.DeleteFunc(slices.Clone(w.Triggers), IsEvent)
	}
	if len(w.Triggers) > 0 {
		w.Binding = w.Triggers[0].Binding
		run.Tell(QueuePath+j.Task.Queue, messages.SetAside{ID: j.Task.ID, Work: w})
	}
}

// runOrder runs a hook for one of its order bindings.
func (j Job) runOrder(run *supervisor.Run, hook hooks.Hook, binding hooks.BindingType) error {
	return j.RunHook(run, hook, OrderWork(hook, binding))
}

// OrderWork is the work of an order binding: one context with the snapshots of all
// kubernetes bindings of the hook (C31).
func OrderWork(hook hooks.Hook, binding hooks.BindingType) messages.RunHook {
	return messages.RunHook{Hook: hook.Name, Binding: binding, Triggers: []messages.Trigger{{
		Context:   hooks.Context{Binding: string(binding)},
		Snapshots: hook.Config.OrderSnapshots(binding),
	}}}
}

// snapshotsFor takes the snapshots that any of the triggers asks for, once, now (C35).
func (j Job) snapshotsFor(run *supervisor.Run, hook hooks.Hook, triggers []messages.Trigger) (messages.Snapshots, error) {
	if !slices.ContainsFunc(triggers, func(t messages.Trigger) bool { return len(t.Snapshots) > 0 }) {
		return messages.Snapshots{}, nil
	}
	return j.snapshots(run, hook, messages.Synchronization{})
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

// pick returns the snapshots of the bindings with the given names; nil for none asked.
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

// snapshots waits until all bindings of a hook are complete.
func (j Job) snapshots(run *supervisor.Run, hook hooks.Hook, synchronization messages.Synchronization) (messages.Snapshots, error) {
	run.Step("%s: wait for snapshots", hook.Name)
	got, err := supervisor.Ask[messages.Snapshots](run, MonitorsPath, messages.GetSnapshots{Owner: j.Owner, Hook: hook, Synchronization: synchronization})
	if err == nil {
		err = got.Err
	}
	if err == nil && got.Waiting != "" {
		err = &waitingError{got.Waiting, got.Resync}
	}
	if err != nil {
		return got, fmt.Errorf("hook %s: snapshots: %w", hook.Name, err)
	}
	return got, j.ask(run, HandOver{}) // that may have taken a while
}

// waitingError says that a snapshot cannot be complete for now.
type waitingError struct {
	reason string
	resync bool // as in [messages.Snapshots]
}

// Error implements error.
func (e *waitingError) Error() string { return e.reason }

// Synchronize runs a hook for the objects that are there already and lets the events of
// these bindings through afterwards (C40). A failure that the binding allows counts as
// a success (F12).
func (j Job) Synchronize(run *supervisor.Run, hook hooks.Hook, w messages.SynchronizeHook) error {
	if e, done := j.Unfinished.take(j.Task.ID, hook, synchronizationStep(w)); done {
		j.synchronized(run, w, e)
		return nil
	}
	synchronization := messages.Synchronization{Run: j.shows.Add(1)}
	for _, i := range w.Bindings {
		synchronization.Bindings = append(synchronization.Bindings, BindingKey(hook, i))
	}
	e := effects{hook: hook, step: synchronizationStep(w), synchronization: synchronization}
	defer func() {
		if _, due := j.Unfinished.due(j.Task.ID); !due { // else the next attempt goes on, and its events stay held
			run.Tell(MonitorsPath, messages.SynchronizationEnded{Owner: j.Owner, Synchronization: synchronization})
		}
	}()
	snapshots, err := j.snapshots(run, hook, synchronization)
	var waiting *waitingError
	if errors.As(err, &waiting) {
		j.deferSynchronization(run, hook, w, waiting)
		return nil
	}
	if err != nil {
		return err
	}
	for _, i := range w.Bindings {
		e.seen = append(e.seen, snapshots.Bindings[i].Seq)
	}
	first := hook.Config.Kubernetes[w.Bindings[0]]
	e.allowFailure = first.AllowFailure
	if w.Instead || slices.ContainsFunc(w.Bindings, func(i int) bool { return hook.Config.Kubernetes[i].ExecuteOnSynchronization }) {
		c := synchronizationContext(first, snapshots, w.Bindings[0])
		j.Task.AllowFailure = first.AllowFailure // a copy; the task may be a module run, which allows nothing
		err := j.execute(run, hooks.OnKubernetes, []hooks.Context{c}, w.Late || w.Again, e)
		if cause := context.Cause(run.Context()); cause != nil {
			return cause // the hook was killed, which is no failure that may be allowed
		}
		if err != nil && !first.AllowFailure {
			return err
		}
		if err != nil {
			j.Unfinished.End(j.Task.ID)
			j.allowed(hook, first.Name, err)
		}
	}
	j.openBindings(run, w, e)
	return nil
}

// allowed says that a Synchronization has failed and that its binding allows it.
func (j Job) allowed(hook hooks.Hook, binding string, err error) {
	j.Log.Warn("hook failed at Synchronization; its failure is allowed", "hook", hook.Name, "binding", binding, "err", err)
}

// synchronized ends a Synchronization whose hook ran in an earlier attempt at the task.
func (j Job) synchronized(run *supervisor.Run, w messages.SynchronizeHook, e effects) {
	j.openBindings(run, w, e)
	run.Tell(MonitorsPath, messages.SynchronizationEnded{Owner: j.Owner, Synchronization: e.synchronization})
}

// openBindings lets the events through that the hook has not seen at its Synchronization.
func (j Job) openBindings(run *supervisor.Run, w messages.SynchronizeHook, e effects) {
	for i, key := range e.synchronization.Bindings {
		run.Tell(MonitorsPath, messages.UnlockBinding{Watch: messages.WatchKey{Owner: j.Owner, Binding: key}, Seen: e.seen[i]})
		run.Tell(OwnerPath(j.Owner), messages.BindingSynchronized{Binding: key, Late: w.Late, Task: j.Task.ID, Config: e.hook.Config})
	}
}

// deferSynchronization lets everybody else go on: the Synchronization is queued when the
// binding is complete.
func (j Job) deferSynchronization(run *supervisor.Run, hook hooks.Hook, w messages.SynchronizeHook, reason error) {
	j.Log.Warn("Synchronization of a hook is deferred; other hooks do not wait for it", "hook", hook.Name, "bindings", w.Names, "err", reason)
	w.Late = w.Late || !w.Again // else nothing went on without it
	queue := hook.Config.Kubernetes[w.Bindings[0]].Queue
	run.Tell(MonitorsPath, messages.SynchronizeLater{Owner: j.Owner, Queue: queue, Hook: hook, Work: w})
	for _, i := range w.Bindings {
		run.Tell(OwnerPath(j.Owner), messages.BindingDeferred{Binding: BindingKey(hook, i), Task: j.Task.ID, Config: hook.Config})
	}
}

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

// execute runs a hook once, has its result applied, and counts how that ended: as exactly one
// of success, error and allowed error, unless the hook was ended with its module or the operator.
func (j Job) execute(run *supervisor.Run, binding hooks.BindingType, contexts []hooks.Context, triggers bool, e effects) (err error) {
	hook := e.hook
	run, s := j.span(run, "hook run", about{hook: hook.Name, binding: contexts[0].Binding})
	defer func() { s.End(err) }()
	prepared, err := j.prepare(run, hook, binding, contexts)
	if err != nil {
		return err
	}
	var used hooks.Usage
	outcome := errors.New("bug: it panicked") // until it returns
	defer func() {
		if outcome == nil || run.Context().Err() == nil {
			j.Metrics.Hooks.Ended(j.Owner, hook.Name, contexts[0].Binding, j.Task, used, outcome)
		}
	}()
	outcome = j.runAndApply(run, prepared, binding, triggers, &used, e)
	return outcome
}

// runAndApply runs a hook: what can be checked without writing is checked before anything has an
// effect; then ConfigMap, values, flags, objects, metrics (D26). Of a failure before the commit
// nothing is left. What fails after it is kept with the task.
func (j Job) runAndApply(run *supervisor.Run, prepared hooks.Run, binding hooks.BindingType, triggers bool, used *hooks.Usage, e effects) error {
	hook := e.hook
	result, err := j.process(run, prepared, binding)
	*used = result.Usage
	if err != nil {
		return errors.Join(err, j.patchDespite(run, hook, result))
	}
	if e.objects, err = j.objectPatches(hook, result); err != nil {
		return err
	}
	if err := j.checkObjects(run, e.objects); err != nil {
		return j.objectsFailed(run, fmt.Errorf("hook %s: its result is refused: object patches: %w", hook.Name, err))
	}
	if err := j.Metrics.Reports.Check(result.Metrics); err != nil {
		return fmt.Errorf("hook %s: its result is refused: %w", hook.Name, err)
	}
	e.metrics = result.Metrics
	j.Unfinished.begin(j.Task.ID, e)
	err = j.ask(run, messages.ApplyHookResult{
		Hook: hook.Name, Binding: binding, Triggers: triggers, Reload: j.Task.Reload,
		Cause:  messages.By(messages.ByHook, hook.Name+" changed "+changedPaths(result), j.Task.Cause).In(traceOf(run)),
		Result: result, Origin: values.Origin{Hook: hook.Name, Task: j.Task.ID, Time: time.Now()},
	})
	if err != nil {
		return err
	}
	if err := j.finish(run, e); err != nil {
		return err
	}
	j.Unfinished.End(j.Task.ID)
	return nil
}

func (j Job) objectPatches(hook hooks.Hook, result hooks.Result) ([]objectpatch.Patch, error) {
	objects, err := objectpatch.Parse(result.ObjectPatches, j.JQLibrary...)
	if err != nil {
		return nil, fmt.Errorf("hook %s: its result is refused: KUBERNETES_PATCH_PATH: %w", hook.Name, err)
	}
	return objects, nil
}

func (j Job) checkObjects(run *supervisor.Run, objects []objectpatch.Patch) error {
	if len(objects) == 0 {
		return nil
	}
	return j.Objects.CheckObjectPatches(run.Context(), objects)
}

// patchObjects executes operations and returns those that have failed.
func (j Job) patchObjects(run *supervisor.Run, hook hooks.Hook, objects []objectpatch.Patch) (left []objectpatch.Patch, err error) {
	if len(objects) == 0 {
		return nil, nil
	}
	run.Step("%s: %d object patches", hook.Name, len(objects))
	ctx, written := j.writesOf(run, hook, objects)
	defer written()
	about := []any{"hook", hook.Name}
	if j.Owner != messages.GlobalHooks {
		about = append([]any{"module", j.Owner}, about...)
	}
	left, err = j.Objects.ApplyObjectPatches(kube.WithAbout(ctx, about...), objects)
	if err != nil {
		return left, fmt.Errorf("hook %s: object patches: %w", hook.Name, err)
	}
	return nil, nil
}

// patchDespite applies what a hook that failed wants to be applied all the same:
// operations with ignoreHookError, for example its own word in a status (K9).
func (j Job) patchDespite(run *supervisor.Run, hook hooks.Hook, result hooks.Result) error {
	objects, err := j.objectPatches(hook, result)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(p objectpatch.Patch) bool { return !p.IgnoreHookError })
	if err := j.checkObjects(run, objects); err != nil {
		return fmt.Errorf("hook %s: object patches: %w", hook.Name, err)
	}
	_, err = j.patchObjects(run, hook, objects)
	return err
}

// changedPaths names what the patches of a hook touch, for the chain of causes.
func changedPaths(r hooks.Result) string {
	var paths []string
	known := map[string]bool{}
	for _, patch := range []values.Patch{r.ConfigPatch, r.ValuesPatch} {
		for _, op := range patch {
			if !known[op.Path] {
				known[op.Path] = true
				paths = append(paths, op.Path)
			}
		}
	}
	const shown = 3
	if len(paths) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:shown], ", "), len(paths)-shown)
	}
	return strings.Join(paths, ", ")
}

// prepare waits for the turn of a hook and takes the values as they are then.
func (j Job) prepare(run *supervisor.Run, hook hooks.Hook, binding hooks.BindingType, contexts []hooks.Context) (hooks.Run, error) {
	if limit := j.Limits.of(hook); limit != nil && !limit.Allow() {
		run.Step("%s: waits for its turn (executionMinInterval)", hook.Name)
		if err := limit.Wait(run.Context()); err != nil {
			return hooks.Run{}, fmt.Errorf("hook %s: wait for its turn: %w", hook.Name, err)
		}
		if err := j.ask(run, HandOver{}); err != nil {
			return hooks.Run{}, err
		}
	}
	run.Step("%s: %s", hook.Name, binding)
	merged, config := j.Known.Values()
	if j.Owner != messages.GlobalHooks {
		merged[values.GlobalKey] = decide.WithEnabledModules(merged[values.GlobalKey], j.Known.Enabled)
	}
	return hooks.Run{
		Hook: hook, WorkingDir: j.WorkingDir, Contexts: contexts, Values: merged, ConfigValues: config,
		Labels: j.labels(hook.Name, contexts[0].Binding), Env: traceEnvironment(run),
	}, nil
}

// process runs the executable.
func (j Job) process(run *supervisor.Run, prepared hooks.Run, binding hooks.BindingType) (hooks.Result, error) {
	defer j.hookBegins(prepared.Hook, prepared.Contexts[0].Binding)()
	defer j.tellRun(run, prepared.Hook, prepared.Contexts)()
	began := time.Now()
	result, err := j.Hooks.Run(run.Context(), prepared)
	j.Parts.add(prepared.Hook.Name, began)
	if j.HookRan != nil && run.Context().Err() == nil { // else it was ended
		j.HookRan(view.HookRun{
			Owner: j.Owner, Hook: prepared.Hook.Name, Queue: j.Task.Queue, Task: j.Task.ID, Binding: binding, Contexts: prepared.Contexts, Cause: j.Task.Cause,
			Took: time.Since(began), Err: err, Output: result.Output,
		})
	}
	for _, warning := range result.Warnings {
		j.Log.Warn(warning, "hook", prepared.Hook.Name)
	}
	return result, err
}

func (j Job) labels(hook, binding string) []slog.Attr {
	labels := []slog.Attr{slog.String("hook", hook), slog.String("binding", binding), slog.String("queue", j.Task.Queue), slog.String("task", j.Task.ID)}
	if j.Owner != messages.GlobalHooks {
		labels = append([]slog.Attr{slog.String("module", j.Owner)}, labels...)
	}
	return labels
}

// AwaitSynchronized is the work of an AwaitSynchronization task.
func (j Job) AwaitSynchronized(run *supervisor.Run) (err error) {
	run.Step("wait for Synchronization in other queues")
	run, s := j.span(run, "wait for synchronization", about{})
	defer func() { s.End(err) }()
	return j.ask(run, messages.AwaitSynchronized{Trace: traceOf(run)})
}
