package testkit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"addon-operator/actors/scenario"
	"addon-operator/hooks"
	"addon-operator/values"
)

// Hooks runs hooks for a script: real executables through the real runner, scripted ones itself,
// and it makes runs fail or last as the steps say. Its counts go on when the operator is started
// again. Runs of several queues call it in parallel.
type Hooks struct {
	real  *hooks.Runner // nil when all hooks are scripted
	trace *scenario.Trace

	mu   sync.Mutex     // of runs
	runs map[string]int // of scripted hooks by name and binding

	observer *observer
	disk     *disk             // nil: files are read from the file system each time
	cluster  *scenario.Cluster // nil: hooks write nothing themselves
	sched    *scheduler        // nil: each goroutine goes on when it wakes
	faults   *scenario.Faults  // nil: none
}

// NewHooks makes a runner; processes may be nil when all hooks are scripted.
func NewHooks(processes *hooks.Runner, trace *scenario.Trace) *Hooks {
	return &Hooks{
		real: processes, trace: trace, runs: map[string]int{}, observer: newObserver(),
	}
}

// begin lets a hook take its time, and returns the error with which it fails, if it must. A run
// that is cut meanwhile is killed, as a process would be; one of a dead operator does nothing more.
func (h *Hooks) begin(ctx context.Context, name string) error {
	d := h.faults.Lasts(scenario.FaultOfHook + name)
	if d > 0 && !h.sleep(ctx, name, d) {
		h.trace.Add("hook %s is killed", name)
		return fmt.Errorf("hook %s: %w", name, context.Cause(ctx))
	}
	if h.faults.Died() {
		return scenario.ErrDead
	}
	if h.faults.Take(faultOfMistake+name, 1) > 0 {
		panic("the script makes it panic")
	}
	if h.faults.Take(scenario.FaultOfHook+name, 1) > 0 {
		return &hooks.ExitError{Hook: name, Code: 1, Stderr: "the script makes it fail"}
	}
	return nil
}

// Faults that only scripts of testkit have: runs of hooks that panic, and actions of Helm that need
// an API whose server does not answer.
const (
	faultOfMistake = "panic "
	faultOfAway    = "away "
)

// sleep reports false when the hook was killed first.
func (h *Hooks) sleep(ctx context.Context, name string, d time.Duration) (slept bool) {
	select {
	case <-time.After(d):
		slept = true
	case <-ctx.Done():
	}
	h.sched.await("hook " + name) // other goroutines may wake at the same instant
	return slept
}

// Configure implements work.HookRunner.
func (h *Hooks) Configure(ctx context.Context, file hooks.File, workingDir string, scope hooks.Scope) ([]hooks.Hook, error) {
	if err := h.begin(ctx, file.Name+scenario.AskConfig); err != nil {
		return nil, err
	}
	h.sched.await("config " + file.Name)
	s, err := h.disk.script(file.Path)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return h.real.Configure(ctx, file, workingDir, scope)
	}
	config, err := s.configure(scope)
	if err != nil {
		return nil, fmt.Errorf("hook %s: %w", file.Name, err)
	}
	return []hooks.Hook{{File: file, Config: config}}, nil
}

// Run implements work.HookRunner.
func (h *Hooks) Run(ctx context.Context, run hooks.Run) (hooks.Result, error) {
	contexts := describe(run.Contexts)
	h.sched.await("hook " + run.Hook.Name) // that of another queue may begin at the same time
	h.trace.Add("hook %s: %s", run.Hook.Name, strings.Join(contexts, " + "))
	h.observer.seen(run)
	defer h.observer.hookRun(run, contexts)()
	return h.run(ctx, run)
}

// run runs a hook. A run that fails returns results all the same, with marks in them: the operator
// must not apply them.
func (h *Hooks) run(ctx context.Context, run hooks.Run) (hooks.Result, error) {
	if err := h.begin(ctx, run.Hook.Name); err != nil {
		return marked(run), err
	}
	s, err := h.disk.script(run.Hook.Path)
	if err != nil {
		return hooks.Result{}, err
	}
	if s == nil {
		return h.real.Run(ctx, run)
	}
	return h.play(run, s)
}

// play does what the script says for each binding of a run; combined contexts may have
// several.
func (h *Hooks) play(run hooks.Run, s *script) (result hooks.Result, err error) {
	var all scriptedRun
	// Of several contexts of one binding, the last one shows the latest snapshots.
	for i, c := range run.Contexts {
		again := slices.ContainsFunc(run.Contexts[i+1:], func(later hooks.Context) bool { return later.Binding == c.Binding })
		step, ok := s.Runs[c.Binding]
		if again || !ok || !h.due(run.Hook.Name+" "+c.Binding, step.Times) {
			continue
		}
		all.Values = append(all.Values, step.Values...)
		all.Values = append(all.Values, step.seen(c)...)
		all.Config = append(all.Config, step.Config...)
		all.Objects = append(all.Objects, step.Objects...)
		all.Kubectl = append(all.Kubectl, step.Kubectl...)
	}
	if err := h.kubectl(all.Kubectl); err != nil {
		return result, err
	}
	if result.ValuesPatch, err = scenario.PatchOf(all.Values); err != nil {
		return result, err
	}
	if result.ObjectPatches, err = objectPatches(all.Objects); err != nil {
		return result, err
	}
	result.ConfigPatch, err = scenario.PatchOf(all.Config)
	return result, err
}

// kubectl writes objects as a hook does that calls kubectl: the operator knows nothing of it.
func (h *Hooks) kubectl(operations []any) error {
	if len(operations) == 0 || h.cluster == nil {
		return nil
	}
	text, err := objectPatches(operations)
	if err != nil {
		return err
	}
	return h.cluster.Write(context.Background(), text)
}

// objectPatches is what a hook writes to KUBERNETES_PATCH_PATH: JSON, a line for each operation.
func objectPatches(operations []any) (all []byte, err error) {
	for _, o := range operations {
		text, err := values.JSON(o)
		if err != nil {
			return nil, err
		}
		all = append(append(all, text...), '\n')
	}
	return all, nil
}

// due counts the runs of a hook for a binding and reports whether this one does something.
func (h *Hooks) due(key string, times int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[key]++
	return times <= 0 || h.runs[key] <= times
}

// countObjects counts the objects in the snapshots of a context.
func countObjects(c hooks.Context) int {
	n := 0
	for _, objects := range c.Snapshots {
		n += len(objects)
	}
	return n
}

// Enabled implements work.HookRunner.
func (h *Hooks) Enabled(ctx context.Context, e hooks.EnabledScript) (answer hooks.Answer, err error) {
	name := e.Module + "/enabled"
	defer h.observer.enter("the enabled script of "+e.Module, "discovery")()
	if err := h.begin(ctx, name); err != nil {
		h.trace.Add("enabled script of %s fails", e.Module)
		return answer, err
	}
	s, err := h.disk.script(e.Path)
	if err != nil {
		return answer, err
	}
	if s != nil {
		answer = hooks.Answer{Enabled: s.enabled(e.Values), Reason: s.Reason}
	} else if answer, err = h.real.Enabled(ctx, e); err != nil {
		return answer, err
	}
	h.trace.Add("enabled script of %s: %t", e.Module, answer.Enabled)
	return answer, nil
}

// describe names contexts as a trace shows them. What they contain is in it only as numbers, so
// that a trace stays readable, and plays under different seeds can be compared by it.
func describe(contexts []hooks.Context) []string {
	parts := make([]string, 0, len(contexts))
	for _, c := range contexts {
		part := c.Binding
		if c.Type != "" {
			part += " " + string(c.Type)
		}
		if c.WatchEvent != "" {
			part += " " + c.WatchEvent + " " + nameOf(c)
		}
		if c.Type == hooks.TypeSynchronization {
			part += fmt.Sprintf(" of %d", len(c.Objects))
		}
		if len(c.Snapshots) > 0 {
			var names []string
			for name, objects := range c.Snapshots {
				names = append(names, fmt.Sprintf("%s:%d", name, len(objects)))
			}
			slices.Sort(names)
			part += " snapshots " + strings.Join(names, ",")
		}
		parts = append(parts, part)
	}
	return parts
}

// nameOf is what a context is about: the request of a webhook, the object of an event, or the
// filter result, where the binding does not keep full objects.
func nameOf(c hooks.Context) string {
	if c.Resource != nil {
		return c.Resource.Kind + " " + c.Resource.Namespace + "/" + c.Resource.Name
	}
	var object struct {
		Metadata struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(c.Object, &object); err != nil || object.Metadata.Name == "" {
		return string(c.FilterResult)
	}
	return object.Metadata.Namespace + "/" + object.Metadata.Name
}
