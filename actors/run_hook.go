package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"addon-operator/actors/plan"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/kube/objectpatch"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// Job is the work of one task as a run does it. The owner makes it once for a task, and the run
// copies it freely; what its pointers lead to is shared by all attempts and copies. The methods are the work: of a
// module (run_module.go), of a reload (run_discovery.go), of one hook (hookJob).
type Job struct {
	*Shared
	Owner      string
	WorkingDir string // of its hooks
	Task       messages.Task
	// Known is what the owner has handed over last. The owner writes it before an attempt begins,
	// the run with each answer; nil for converge, which hands over nothing.
	Known  *known
	Log    *slog.Logger
	Limits *limits // of the owner
	// Due are effects that failed attempts at the task have left. Attempts follow one another, and the owner reads it
	// after the last one.
	Due map[step]effects
}

// step is one run of a hook in a task: the hook, and what it runs for.
type step struct{ hook, reason string }

// effects are the part of a hook's result that follows its commit (D26): object patches, which the
// API server may refuse, then metrics. What is committed must not be committed again, so an attempt that comes to the
// same step continues here and does not run the hook.
type effects struct {
	step    step
	objects []objectpatch.Patch // those that are left
	metrics []hooks.Metric
	// ended is what monitors receive at the end of a Synchronization, whose events they hold until then: with what the
	// hook has seen.
	ended messages.SynchronizationEnded
}

// hookJob is a job that runs one hook. It is a value: execute replaces run in its copy
// by one that is in the span of the hook.
type hookJob struct {
	Job
	run  *supervisor.Run
	hook hooks.Hook
}

// Run is the work of a RunHook task.
func (h hookJob) Run(w messages.RunHook) error { return h.alone(func() error { return h.serve(w) }) }

// serve runs the hook for its triggers.
func (h hookJob) serve(w messages.RunHook) error {
	e := effects{step: step{h.hook.Name, string(w.Binding)}}
	if left, due := h.Due[e.step]; due {
		return h.finish(left)
	}
	var snapshots messages.Snapshots
	// A hook need not wait for bindings whose objects it is not shown.
	shows := func(t messages.Trigger) bool {
		return len(t.Snapshots) > 0 || t.Context.Type == hooks.TypeSynchronization
	}
	if slices.ContainsFunc(w.Triggers, shows) {
		var err error
		if snapshots, err = h.snapshots(messages.Synchronization{}); err != nil {
			return err
		}
	}
	if snapshots.Waiting != "" {
		h.skip(w, snapshots.Waiting)
		return nil
	}
	if len(w.Triggers) > 1 && inFile(w.Triggers, snapshots) > maxContexts {
		w = h.relieved(h.Task, w)
	}
	all := contexts(w.Triggers, snapshots)
	if len(all) == 0 {
		return nil
	}
	return h.execute(w.Binding, all, w.Binding == hooks.OnSchedule || w.Binding == hooks.OnKubernetes, e)
}

// inFile is how many bytes triggers take in BINDING_CONTEXT_PATH.
func inFile(triggers []messages.Trigger, snapshots messages.Snapshots) (sum int) {
	sizes := map[string]int{}
	for _, b := range snapshots.Bindings {
		for _, o := range b.Objects {
			sizes[b.Name] += len(o.Object) + len(o.FilterResult)
		}
	}
	for _, t := range triggers {
		sum += held(t)
		for _, name := range t.Snapshots {
			sum += sizes[name]
		}
	}
	return sum
}

// skip leaves out a hook one of whose snapshots cannot be complete for now: it must not delay others, and must not
// take an incomplete snapshot for a complete one. When the snapshots are complete, the module (or the reload) that is
// due then runs its order hooks again (Late), and a Synchronization shows what events would have shown (Instead); the
// next tick comes by itself (C17).
func (h hookJob) skip(w messages.RunHook, reason string) {
	h.Log.Warn("hook is skipped: one of its bindings has no complete snapshot",
		"hook", h.hook.Name, "binding", w.Binding, "err", reason)
	ordered := w.Binding != hooks.OnSchedule && w.Binding != hooks.OnKubernetes
	due := synchronizations(h.hook)
	for i, s := range due {
		missed := func(t messages.Trigger) bool {
			return t.Binding == hooks.OnKubernetes && slices.Contains(s.Bindings, t.Index)
		}
		s.Again, s.Instead, s.Late = true, slices.ContainsFunc(w.Triggers, missed), ordered && i == len(due)-1
		if s.Instead || s.Late {
			h.run.Tell(monitorsPath, messages.SynchronizeLater{Owner: h.Owner, Hook: h.hook, Work: s})
		}
	}
}

// orderWork is the work of an order binding: one context with the snapshots of all
// kubernetes bindings of the hook (C31).
func orderWork(hook hooks.Hook, binding hooks.BindingType) messages.RunHook {
	return messages.RunHook{Hook: hook.Name, Binding: binding, Triggers: []messages.Trigger{{
		Context:   hooks.Context{Binding: string(binding)},
		Snapshots: hook.Config.OrderSnapshots(binding),
	}}}
}

// contexts completes the triggers with snapshots, which they share. A Synchronization in place of events shows its
// binding, unless the module was disabled and enabled since, with another hook: then the start has shown what there
// is. One that a person repeats has its objects already.
func contexts(triggers []messages.Trigger, snapshots messages.Snapshots) []hooks.Context {
	list := make([]hooks.Context, 0, len(triggers))
	for _, t := range triggers {
		c := t.Context
		if c.Type == hooks.TypeSynchronization && c.Objects == nil {
			if t.Index >= len(snapshots.Bindings) || snapshots.Bindings[t.Index].Name != c.Binding {
				continue
			}
			c.Objects = snapshots.Bindings[t.Index].Objects
		}
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
		if others, wanted := picked[b.Name]; wanted && len(others) > 0 { // names may repeat
			picked[b.Name] = slices.Concat(others, b.Objects)
		} else if wanted {
			picked[b.Name] = b.Objects // shared: snapshots can be large
		}
	}
	return picked
}

// snapshots takes the snapshots of all bindings of the hook, once, now (C35): it waits until they are complete, then
// takes the values of the owner again, because the wait may have been long.
func (h hookJob) snapshots(synchronization messages.Synchronization) (messages.Snapshots, error) {
	h.run.Step("%s: wait for snapshots", h.hook.Name)
	question := messages.GetSnapshots{Owner: h.Owner, Hook: h.hook, Synchronization: synchronization}
	got, err := supervisor.Ask[messages.Snapshots](h.run, monitorsPath, question)
	if err = cmp.Or(err, got.Err); err != nil {
		return got, fmt.Errorf("hook %s: snapshots: %w", h.hook.Name, err)
	}
	return got, h.ask(h.run, handOver{})
}

// Synchronize runs a hook for the objects that exist already, and lets the events of these bindings
// through afterwards (C40). A failure that the binding allows counts as a success (F12). The
// monitors hold the events until SynchronizationEnded, so every way out sends it, unless a retry continues this very
// Synchronization.
func (h hookJob) Synchronize(w messages.SynchronizeHook) error {
	return h.alone(func() error { return h.synchronize(w) })
}

// synchronize is Synchronize for a hook that is not running.
func (h hookJob) synchronize(w messages.SynchronizeHook) error {
	at := step{h.hook.Name, fmt.Sprint("Synchronization ", w.Bindings)}
	e, due := h.Due[at]
	defer func() {
		if _, due := h.Due[at]; due { // the next attempt goes on, and its events stay held
			return
		}
		h.run.Tell(monitorsPath, e.ended)
		for i := range e.ended.Seen {
			settled := messages.BindingSettled{Binding: e.ended.Bindings[i], Late: w.Late, Task: h.Task.ID}
			h.run.Tell(ownerPath(h.Owner), settled)
		}
	}()
	if due {
		return h.finish(e)
	}
	e = effects{step: at, ended: messages.SynchronizationEnded{Owner: h.Owner}}
	e.ended.Run = h.shows.Add(1)
	for _, i := range w.Bindings {
		e.ended.Bindings = append(e.ended.Bindings, bindingKey(h.hook, i))
	}
	snapshots, err := h.snapshots(e.ended.Synchronization)
	if err != nil {
		return err
	}
	if snapshots.Waiting != "" {
		h.postpone(w, snapshots.Waiting)
		return nil
	}
	done, executes := e, w.Instead
	for _, i := range w.Bindings {
		done.ended.Seen = append(done.ended.Seen, snapshots.Bindings[i].Seq)
		executes = executes || h.hook.Config.Kubernetes[i].ExecuteOnSynchronization
	}
	if first := h.hook.Config.Kubernetes[w.Bindings[0]]; executes {
		h.Task.AllowFailure = first.AllowFailure // a copy; the task may be a module run, which allows nothing
		shown := contexts([]messages.Trigger{synchronizationTrigger(first, w.Bindings[0])}, snapshots)
		err := h.execute(hooks.OnKubernetes, shown, w.Late || w.Again, done)
		if cause := context.Cause(h.run.Context()); cause != nil {
			return cause // the hook was killed, which is no failure that may be allowed
		}
		if err != nil && !first.AllowFailure {
			return err
		}
		if err != nil {
			delete(h.Due, at)
			h.Log.Warn("hook failed at Synchronization; its failure is allowed",
				"hook", h.hook.Name, "binding", first.Name, "err", err)
		}
	}
	e = done
	return nil
}

// postpone defers a Synchronization until its bindings are complete, so that nothing else waits for
// it. Late: the module continues without this hook and so has to run again afterwards.
func (h hookJob) postpone(w messages.SynchronizeHook, reason string) {
	h.Log.Warn("Synchronization of a hook is deferred; other hooks do not wait for it",
		"hook", h.hook.Name, "bindings", w.Names, "err", reason)
	w.Late = w.Late || !w.Again // else nothing went on without it
	h.run.Tell(monitorsPath, messages.SynchronizeLater{Owner: h.Owner, Hook: h.hook, Work: w})
	for _, i := range w.Bindings {
		settled := messages.BindingSettled{Binding: bindingKey(h.hook, i), Deferred: true, Task: h.Task.ID}
		h.run.Tell(ownerPath(h.Owner), settled)
	}
}

// synchronizationTrigger shows a binding, with the given index (C31). All bindings of a group share a context, which
// has snapshots in place of objects (C34).
func synchronizationTrigger(b hooks.KubernetesBinding, i int) messages.Trigger {
	c := hooks.Context{Binding: b.Name, Type: hooks.TypeSynchronization}
	if b.Group != "" {
		c.Type, c.GroupName = hooks.TypeGroup, b.Group
	}
	return messages.Trigger{Context: c, Snapshots: b.Snapshots, Binding: hooks.OnKubernetes, Index: i}
}

// execute runs a hook once and applies its result (D26). What can be checked without writing is
// checked before anything has an effect. Then come ConfigMap, values and flags (in the owner),
// objects and metrics (here). A failure before the commit leaves nothing behind. What fails after
// it is kept with the task, and a retry continues there without running the hook again (D26).
//
// The end counts as exactly one of success, error and allowed error. A hook that was killed with its module or the
// operator is not counted: it has not failed.
func (h hookJob) execute(binding hooks.BindingType, contexts []hooks.Context, triggers bool, e effects) (err error) {
	name := contexts[0].Binding
	var s span
	h.run, s = h.span(h.run, "hook run", attribute.String("hook", h.hook.Name), attribute.String("binding", name))
	defer func() { s.End(err) }()
	err = errors.New("bug: it panicked") // until it returns
	var result hooks.Result
	defer func() {
		if err == nil || h.run.Context().Err() == nil {
			h.Metrics.HookEnded(h.Owner, h.hook.Name, name, h.Task, result.Usage, err)
		}
	}()
	var failed, refused error
	result, failed = h.process(binding, contexts)
	e.objects, refused = h.objectPatches(result, failed != nil)
	if failed != nil {
		if refused == nil { // those that are left are written all the same, for example into a status (K9)
			_, refused = h.patchObjects(e.objects)
		}
		return errors.Join(failed, refused)
	}
	if refused != nil {
		return refused
	}
	if failed := h.Metrics.Reports.Check(result.Metrics); failed != nil {
		return fmt.Errorf("hook %s: its result is refused: %w", h.hook.Name, failed)
	}
	e.metrics = result.Metrics
	if failed := h.ask(h.run, messages.ApplyHookResult{
		Hook: h.hook.Name, Binding: binding, Triggers: triggers,
		Cause:  messages.By(messages.ByHook, h.hook.Name, h.Task.Cause).In(traceOf(h.run)),
		Result: result, Origin: values.Origin{Hook: h.hook.Name, Task: h.Task.ID, Time: time.Now()},
	}); failed != nil {
		return failed
	}
	return h.finish(e)
}

// process runs the executable when the rate limit of the hook allows a run (C10), with the values as they are then,
// and notifies everyone who watches over hooks: the report of hanging ones, and HookRan. The result is returned with
// an error, too: it has the usage, and patches that are applied despite the failure (K9).
func (h hookJob) process(binding hooks.BindingType, contexts []hooks.Context) (hooks.Result, error) {
	_, answers := h.Task.Work.(messages.Review) // which do not wait (O5)
	if limit := h.Limits.of(h.hook); limit != nil && !answers && !limit.Allow() {
		h.run.Step("%s: waits for its turn (executionMinInterval)", h.hook.Name)
		err := limit.Wait(h.run.Context())
		if err == nil {
			err = h.ask(h.run, handOver{})
		}
		if err != nil {
			return hooks.Result{}, fmt.Errorf("hook %s: wait for its turn: %w", h.hook.Name, err)
		}
	}
	h.run.Step("%s: %s", h.hook.Name, binding)
	defer h.hookBegins(h.hook.Name, contexts[0].Binding)()
	merged, config := h.Known.Values()
	if h.Owner != messages.GlobalHooks {
		merged[values.GlobalKey] = plan.WithEnabledModules(merged[values.GlobalKey], h.Known.Enabled)
	}
	environment := traceEnvironment(h.run)
	if h.hook.Batch != "" && h.Owner != messages.GlobalHooks { // the module SDK reports under this name
		environment = append(environment, "MODULE_NAME="+h.Owner)
	}
	began := time.Now()
	result, err := h.Hooks.Run(h.run.Context(), hooks.Run{
		Hook: h.hook, WorkingDir: h.WorkingDir, Contexts: contexts, Values: merged, ConfigValues: config,
		Labels: h.labels(h.hook.Name, contexts[0].Binding), Env: environment,
	})
	if h.HookRan != nil && h.run.Context().Err() == nil { // else it was ended
		h.HookRan(view.HookRun{
			Owner: h.Owner, Hook: h.hook.Name, Queue: h.Task.Queue, Binding: binding, Cause: h.Task.Cause,
			Took: time.Since(began), Err: err, Output: result.Output,
		})
	}
	for _, warning := range result.Warnings {
		h.Log.Warn(warning, "hook", h.hook.Name)
	}
	return result, err
}

// finish applies the effects of a committed result. What fails is kept for the next attempt.
func (h hookJob) finish(e effects) (err error) {
	patched := len(e.objects) > 0
	h.Due[e.step] = e // also if this panics
	if e.objects, err = h.patchObjects(e.objects); err != nil {
		h.Due[e.step] = e
		return fmt.Errorf("%w (the rest of its result is in force; a retry does not run the hook again)", err)
	}
	delete(h.Due, e.step)
	h.Metrics.Reports.Add(h.Owner, h.hook.Name, e.metrics)
	if patched {
		return h.ask(h.run, handOver{}) // that may have taken a while, and maintenance may have begun (H15)
	}
	return nil
}

// objectPatches parses the whole file before any of it has an effect (K1), and refuses what cannot be right, such as
// an unknown kind, without writing (D26, K7). Of a failed hook only those with ignoreHookError count (K9).
func (h hookJob) objectPatches(result hooks.Result, failed bool) ([]objectpatch.Patch, error) {
	objects, err := objectpatch.Parse(result.ObjectPatches, h.JQLibrary...)
	if err != nil {
		return nil, fmt.Errorf("hook %s: its result is refused: KUBERNETES_PATCH_PATH: %w", h.hook.Name, err)
	}
	objects = slices.DeleteFunc(objects, func(p objectpatch.Patch) bool { return failed && !p.IgnoreHookError })
	if len(objects) == 0 {
		return nil, nil
	}
	if err := h.Objects.CheckObjectPatches(h.run.Context(), objects); err != nil {
		return nil, fmt.Errorf("hook %s: its result is refused: object patches: %w", h.hook.Name, err)
	}
	return objects, nil
}

// patchObjects executes operations and returns those that have failed, which a retry repeats.
func (h hookJob) patchObjects(objects []objectpatch.Patch) (left []objectpatch.Patch, err error) {
	if len(objects) == 0 {
		return nil, nil
	}
	h.run.Step("%s: %d object patches", h.hook.Name, len(objects))
	ctx := kube.WithAbout(h.run.Context(), "module", messages.ModuleOf(h.Owner), "hook", h.hook.Name)
	if left, err = h.Objects.ApplyObjectPatches(ctx, objects); err != nil {
		err = fmt.Errorf("hook %s: object patches: %w", h.hook.Name, err)
	}
	return left, err
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
	run, s := j.span(run, "wait for synchronization")
	defer func() { s.End(err) }()
	if err = j.ask(run, messages.AwaitSynchronized{Task: j.Task.ID, Trace: traceOf(run)}); err == nil {
		err = j.serveReviews(run)
	}
	return err
}

// maxContexts bounds the bytes of BINDING_CONTEXT_PATH when there are several contexts,
// each of which repeats the snapshots it asked for.
const maxContexts = 32 << 20

// bindingKey is the name of the binding with the given index. Names of bindings may repeat in a
// hook, so the index identifies one.
func bindingKey(hook hooks.Hook, i int) messages.BindingKey {
	return messages.BindingKey{Hook: hook.Name, Index: i}
}

// synchronizations are the Synchronization runs of a hook: one for each binding, in the order of
// definition, and one for all bindings of a group that share a queue (C41, X24). Bindings of a
// group in two queues have two runs: a run is a task of one queue.
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
