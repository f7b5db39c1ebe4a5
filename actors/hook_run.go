package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// job is the work of one task as a run does it. It is a copy of what the owner gave:
// a run never touches its owner's fields.
type job struct {
	program    *program
	owner      string
	workingDir string
	task       messages.Task
	log        *slog.Logger
}

// runHook is the work of a RunHook task.
func (j job) runHook(run *supervisor.Run, hook hooks.Hook, w messages.RunHook) error {
	contexts, err := j.contexts(run, hook, w.Triggers)
	if err != nil {
		return err
	}
	triggers := w.Binding == hooks.OnSchedule || w.Binding == hooks.OnKubernetes
	return j.execute(run, hook, w.Binding, contexts, triggers)
}

// runOrder runs a hook for one of its order bindings.
func (j job) runOrder(run *supervisor.Run, hook hooks.Hook, binding hooks.BindingType) error {
	return j.runHook(run, hook, orderWork(hook, binding))
}

// orderWork is the work of an order binding: one context with the snapshots of all
// kubernetes bindings of the hook (C31).
func orderWork(hook hooks.Hook, binding hooks.BindingType) messages.RunHook {
	return messages.RunHook{Hook: hook.Name, Binding: binding, Triggers: []messages.Trigger{{
		Context:   hooks.Context{Binding: string(binding)},
		Snapshots: hook.Config.OrderSnapshots(binding),
	}}}
}

// contexts completes the triggers with snapshots that are taken once, now (C35).
func (j job) contexts(run *supervisor.Run, hook hooks.Hook, triggers []messages.Trigger) ([]hooks.Context, error) {
	wanted := slices.ContainsFunc(triggers, func(t messages.Trigger) bool { return len(t.Snapshots) > 0 })
	var snapshots messages.Snapshots
	if wanted {
		var err error
		if snapshots, err = j.snapshots(run, hook); err != nil {
			return nil, err
		}
	}
	contexts := make([]hooks.Context, 0, len(triggers))
	for _, t := range triggers {
		c := t.Context
		c.Snapshots = pick(snapshots, t.Snapshots)
		contexts = append(contexts, c)
	}
	return hooks.Compact(contexts), nil
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
			picked[b.Name] = join(picked[b.Name], b.Objects)
		}
	}
	return picked
}

// join shares the list of a single binding: snapshots can be large.
func join(a, b []hooks.Object) []hooks.Object {
	if len(a) == 0 {
		return b
	}
	return slices.Concat(a, b)
}

func (j job) snapshots(run *supervisor.Run, hook hooks.Hook) (messages.Snapshots, error) {
	run.Step("%s: wait for snapshots", hook.Name)
	got, err := ask[messages.Snapshots](run, j.program.PID(monitorsPath), messages.GetSnapshots{Owner: j.owner, Hook: hook})
	if err == nil {
		err = got.Err
	}
	if err != nil {
		return got, fmt.Errorf("hook %s: snapshots: %w", hook.Name, err)
	}
	return got, nil
}

// synchronize runs a hook for the objects that are there already and lets the events of
// these bindings through afterwards (C40). A failure that the binding allows counts as
// a success (F12).
func (j job) synchronize(run *supervisor.Run, hook hooks.Hook, w messages.SynchronizeHook) error {
	snapshots, err := j.snapshots(run, hook)
	if err != nil {
		return err
	}
	first := hook.Config.Kubernetes[w.Bindings[0]]
	if slices.ContainsFunc(w.Bindings, func(i int) bool { return hook.Config.Kubernetes[i].ExecuteOnSynchronization }) {
		c := synchronizationContext(first, snapshots, w.Bindings[0])
		err := j.execute(run, hook, hooks.OnKubernetes, []hooks.Context{c}, false)
		if err != nil && !first.AllowFailure {
			return err
		}
		if err != nil {
			j.program.Metrics.hookAllowed(j.owner, hook.Name, first.Name, j.task)
			j.log.Warn("hook failed at Synchronization; its failure is allowed", "hook", hook.Name, "binding", first.Name, "err", err)
		}
	}
	for _, i := range w.Bindings {
		key := bindingKey(hook, i)
		run.Tell(j.program.PID(monitorsPath), messages.UnlockBinding{Watch: messages.WatchKey{Owner: j.owner, Binding: key}, Seen: snapshots.Bindings[i].Seq})
		run.Tell(j.program.owner(j.owner), messages.BindingSynchronized{Binding: key})
	}
	return nil
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

// execute runs a hook once and has its result applied.
func (j job) execute(run *supervisor.Run, hook hooks.Hook, binding hooks.BindingType, contexts []hooks.Context, triggers bool) error {
	run.Step("%s: %s", hook.Name, binding)
	merged, config, err := j.values(run, true)
	if err != nil {
		return err
	}
	label := contexts[0].Binding
	result, err := j.program.Hooks.Run(run.Context(), hooks.Run{
		Hook: hook, WorkingDir: j.workingDir, Contexts: contexts, Values: merged, ConfigValues: config,
		Labels: j.labels(hook.Name, label),
	})
	j.program.Metrics.hookRan(j.owner, hook.Name, label, j.task, result.Usage, err)
	if err != nil {
		return err
	}
	for _, warning := range result.Warnings {
		j.log.Warn(warning, "hook", hook.Name)
	}
	applied, err := ask[messages.HookResultApplied](run, j.program.owner(j.owner), messages.ApplyHookResult{
		Hook: hook.Name, Binding: binding, Triggers: triggers, Reload: j.task.Reload,
		Cause:  messages.Cause{Activation: messages.ByHook, Detail: hook.Name},
		Result: result,
	})
	return errors.Join(err, applied.Err)
}

func (j job) labels(hook, binding string) []slog.Attr {
	labels := []slog.Attr{slog.String("hook", hook), slog.String("binding", binding), slog.String("queue", j.task.Queue), slog.String("task", j.task.ID)}
	if j.owner != messages.GlobalHooks {
		labels = append([]slog.Attr{slog.String("module", j.owner)}, labels...)
	}
	return labels
}

// values asks for the values that the owner's hooks see: global ones, and those of the
// module (D2, D8). The list of enabled modules is added for hooks of modules only and
// never stored (D9).
func (j job) values(run *supervisor.Run, withEnabled bool) (merged, config map[string]any, err error) {
	global, err := ask[messages.Values](run, j.program.PID(globalPath), messages.GetValues{})
	if err != nil {
		return nil, nil, fmt.Errorf("global values: %w", err)
	}
	merged = map[string]any{values.GlobalKey: global.Section.Merged()}
	config = map[string]any{values.GlobalKey: global.Section.Config()}
	if j.owner == messages.GlobalHooks {
		return merged, config, nil
	}
	own, err := ask[messages.Values](run, j.program.owner(j.owner), messages.GetValues{})
	if err != nil {
		return nil, nil, fmt.Errorf("values of module %s: %w", j.owner, err)
	}
	merged[own.Section.Key()] = own.Section.Merged()
	config[own.Section.Key()] = own.Section.Config()
	if withEnabled {
		merged[values.GlobalKey] = withEnabledModules(merged[values.GlobalKey], global.EnabledModules)
	}
	return merged, config, nil
}

// withEnabledModules returns a copy of the global section that has the list (D9).
func withEnabledModules(section any, names []string) any {
	old, _ := section.(map[string]any)
	out := make(map[string]any, len(old)+1)
	for k, v := range old {
		out[k] = v
	}
	list := make([]any, 0, len(names))
	for _, name := range names {
		list = append(list, name)
	}
	out["enabledModules"] = list
	return out
}

// loadHooks finds the hooks of a directory and asks each for its configuration (C1, C3).
func loadHooks(ctx context.Context, w World, dir, prefix, workingDir string, scope hooks.Scope, log *slog.Logger) ([]hooks.Hook, error) {
	files, warnings, err := hooks.Find(dir, prefix, scope)
	if err != nil {
		return nil, err
	}
	for _, warning := range warnings {
		log.Warn(warning)
	}
	found := make([]hooks.Hook, 0, len(files))
	var errs []error
	for _, file := range files {
		config, err := w.Hooks.Configure(ctx, file, workingDir, scope)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, warning := range config.Warnings {
			log.Warn(warning, "hook", file.Name)
		}
		found = append(found, hooks.Hook{File: file, Config: config})
	}
	return found, errors.Join(errs...)
}

// since is the time a step took, in seconds, as metrics have it.
func since(start time.Time) float64 { return time.Since(start).Seconds() }

// describeObject names an object for people.
func describeObject(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}
