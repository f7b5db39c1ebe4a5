package testkit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// Configure implements actors.HookRunner.
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

// Run implements actors.HookRunner.
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

// Enabled implements actors.HookRunner.
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

// scripted marks a hook that is no program but says in YAML what it does:
//
//	#!testkit
//	config: {configVersion: v1, beforeHelm: 1, afterHelm: 2}
//	runs:
//	  beforeHelm:                 # a binding, by its name in the context
//	    values: [{op: add, path: /dns/zone, value: cluster.local}]
//	    config: []                # the patch for the ConfigMap
//	    times: 1                  # only at its first run; always when it is absent
//	    count: /dns/pods          # write how many objects the snapshots show, too
//	enabled: "true"               # for enabled scripts
//	enabledBy: b.wanted             # or the value of this path, as the script sees it; absent is true
//	reason: no nodes              # what they write to MODULE_ENABLED_REASON
const scripted = "#!testkit"

// script is the YAML of a scripted hook.
type script struct {
	Config  json.RawMessage        `json:"config"`
	Runs    map[string]scriptedRun `json:"runs"`
	Enabled string                 `json:"enabled"`
	// EnabledBy is a path of values that decides instead of Enabled.
	EnabledBy string `json:"enabledBy"`
	Reason    string `json:"reason"`
}

// scriptedRun is what a hook does for one binding. A path is a JSON pointer into the values; "" for
// none.
type scriptedRun struct {
	Values []json.RawMessage `json:"values"`
	Config []json.RawMessage `json:"config"`
	// Objects are what the hook writes to KUBERNETES_PATCH_PATH.
	Objects []json.RawMessage `json:"objects"`
	Times   int               `json:"times"` // in how many of its first runs; 0: in all
	// Count is a path: the number of objects in all snapshots is written there.
	Count string `json:"count"`
}

// seen is the operation on values that depends on the snapshots in the context of the run.
func (s scriptedRun) seen(c hooks.Context) json.RawMessage {
	if s.Count == "" {
		return nil
	}
	n := 0
	for _, objects := range c.Snapshots {
		n += len(objects)
	}
	return fmt.Appendf(nil, `{"op": "add", "path": %q, "value": %d}`, s.Count, n)
}

// readScript returns nil for a file that is no scripted hook.
func readScript(path string) (*script, error) {
	data, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(data, []byte(scripted)) {
		return nil, err
	}
	var s script
	if err := readYAML(data[len(scripted):], &s); err != nil {
		return nil, fmt.Errorf("scripted hook %s: %w", path, err)
	}
	if s.Config == nil && s.Enabled == "" && s.EnabledBy == "" {
		return nil, errors.New("scripted hook " + path + ": it has neither config nor enabled")
	}
	return &s, nil
}

// enabled is the answer of an enabled script that sees these values. With enabledBy, only a false
// at the path disables the module; what is absent does not.
func (s *script) enabled(seen any) bool {
	if s.EnabledBy == "" {
		return s.Enabled == "true"
	}
	values, _ := seen.(map[string]any)
	wanted, there, _ := unstructured.NestedBool(values, strings.Split(s.EnabledBy, ".")...)
	return wanted || !there
}
