package testkit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"addon-operator/actors/scenario"
	"addon-operator/hooks"
	"addon-operator/values"
)

// Hooks runs hooks for a script: real executables through the real runner, and scripted ones itself. Its counts go on
// when the operator is started again. Runs of several queues call it in parallel.
type Hooks struct {
	*outside
	real *hooks.Runner // nil when all hooks are scripted

	mu   sync.Mutex
	runs map[string]int // of scripted hooks by name and binding
}

// NewHooks makes a runner of scripted hooks, for an operator that plays no script.
func NewHooks(trace *scenario.Trace) *Hooks {
	o := &outside{Engine: scenario.NewEngine(nil, trace), observer: newObserver()}
	return &Hooks{outside: o, runs: map[string]int{}}
}

// begin is act for a hook. A run that is cut is killed, as a process would be.
func (h *Hooks) begin(ctx context.Context, name, line string) error {
	err := h.act(ctx, scenario.FaultOfHook, name, line)
	switch {
	case err == nil, errors.Is(err, errDead):
		return err
	case errors.Is(err, errScripted):
		return &hooks.ExitError{Hook: name, Code: 1, Stderr: err.Error()}
	}
	h.Trace.Add("hook %s is killed", name)
	return fmt.Errorf("hook %s: %w", name, err)
}

// Configure implements work.HookRunner.
func (h *Hooks) Configure(ctx context.Context, file hooks.File, workingDir string, scope hooks.Scope) ([]hooks.Hook, error) {
	if err := h.begin(ctx, file.Name+askConfig, ""); err != nil {
		return nil, err
	}
	s, err := readScript(file.Path)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return h.real.Configure(ctx, file, workingDir, scope)
	}
	config, err := hooks.ParseConfig(scope, s.Config)
	if err != nil {
		return nil, fmt.Errorf("hook %s: %w", file.Name, err)
	}
	return []hooks.Hook{{File: file, Config: config}}, nil
}

// Run implements work.HookRunner.
func (h *Hooks) Run(ctx context.Context, run hooks.Run) (hooks.Result, error) {
	var contexts []string
	for _, c := range run.Contexts {
		contexts = append(contexts, scenario.Describe(c))
	}
	defer h.observer.hookRun(run)()
	failed := h.begin(ctx, run.Hook.Name, "hook "+run.Hook.Name+": "+strings.Join(contexts, " + "))
	s, err := readScript(run.Hook.Path)
	switch {
	case err != nil:
		return hooks.Result{}, err
	case s != nil:
		return h.play(run, s, failed)
	case failed != nil:
		return hooks.Result{}, failed
	}
	return h.real.Run(ctx, run)
}

// play does what the script says for each binding of a run; combined contexts may have
// several. A run that fails returns results all the same: the operator must not apply them.
func (h *Hooks) play(run hooks.Run, s *script, failed error) (result hooks.Result, _ error) {
	var all scriptedRun
	// Of several contexts of one binding, the last one shows the latest snapshots.
	for i, c := range run.Contexts {
		again := slices.ContainsFunc(run.Contexts[i+1:], func(later hooks.Context) bool { return later.Binding == c.Binding })
		step, ok := s.Runs[c.Binding]
		if again || !ok || !h.due(run.Hook.Name+" "+c.Binding, step.Times, failed != nil) {
			continue
		}
		all.Values = append(all.Values, step.Values...)
		all.Values = append(all.Values, step.seen(c))
		all.Config = append(all.Config, step.Config...)
		all.Objects = append(all.Objects, step.Objects...)
	}
	// By way of the text that a hook would write, so that it is checked as such a text is.
	read := func(operations []json.RawMessage) values.Patch {
		patch, _, err := values.ParsePatch(slices.Concat(operations...))
		failed = cmp.Or(failed, err)
		return patch
	}
	result.ValuesPatch, result.ConfigPatch = read(all.Values), read(all.Config)
	result.ObjectPatches = slices.Concat(all.Objects...)
	return result, failed
}

// due counts the runs of a hook for a binding, but for those that fail, and reports whether this one does something.
func (h *Hooks) due(key string, times int, fails bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !fails {
		h.runs[key]++
	}
	return times <= 0 || h.runs[key] <= times
}

// Enabled implements work.HookRunner.
func (h *Hooks) Enabled(ctx context.Context, e hooks.EnabledScript) (answer hooks.Answer, err error) {
	defer h.observer.enter("the enabled script of "+e.Module, "discovery")()
	if err := h.begin(ctx, e.Module+"/enabled", ""); err != nil {
		h.Trace.Add("enabled script of %s fails", e.Module)
		return answer, err
	}
	s, err := readScript(e.Path)
	switch {
	case err != nil:
	case s != nil:
		answer = hooks.Answer{Enabled: s.enabled(e.Values), Reason: s.Reason}
	default:
		answer, err = h.real.Enabled(ctx, e)
	}
	if err == nil {
		h.Trace.Add("enabled script of %s: %t", e.Module, answer.Enabled)
	}
	return answer, err
}
