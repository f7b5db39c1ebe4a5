package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"addon-operator/hooks"
	"addon-operator/values"
)

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
const scripted = "#!testkit"

// script is the YAML of a scripted hook.
type script struct {
	Config  map[string]any         `json:"config"`
	Runs    map[string]scriptedRun `json:"runs"`
	Enabled string                 `json:"enabled"`
}

type scriptedRun struct {
	Values []any `json:"values"`
	Config []any `json:"config"`
	// Objects are what the hook writes to KUBERNETES_PATCH_PATH.
	Objects []any `json:"objects"`
	Times   int   `json:"times"`
	// Count is a path: the number of objects in all snapshots is written there.
	Count string `json:"count"`
}

// Hooks runs hooks for a script: real executables through the real runner, scripted
// ones itself, and it makes runs fail or last as the steps say.
type Hooks struct {
	real  *hooks.Runner
	trace *Trace

	mu    sync.Mutex
	fails map[string]int
	slow  map[string]time.Duration
	panic map[string]int
	runs  map[string]int // of scripted hooks by name and binding

	jitter  jitter
	witness *witness
	scripts scriptCache
}

// scriptCache holds parsed scripts and configurations by their text. Shared by plays one after the other;
// guarded by the lock of its Hooks.
type scriptCache struct {
	scripts map[string]*script
	configs map[string]*hooks.Config // by scope and text
}

func newScriptCache() scriptCache {
	return scriptCache{map[string]*script{}, map[string]*hooks.Config{}}
}

// NewHooks makes a runner; processes may be nil when all hooks are scripted.
func NewHooks(processes *hooks.Runner, trace *Trace) *Hooks {
	return &Hooks{
		real: processes, trace: trace, fails: map[string]int{}, slow: map[string]time.Duration{},
		panic: map[string]int{}, runs: map[string]int{}, witness: newWitness(), scripts: newScriptCache(),
	}
}

// Fail makes the next n runs of a hook, or of the enabled script of a module, fail.
func (h *Hooks) Fail(name string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails[name] = n
}

// Panic makes the next n runs of a hook panic, as a mistake of ours would.
func (h *Hooks) Panic(name string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.panic[name] = n
}

// Slow makes runs of a hook last.
func (h *Hooks) Slow(name string, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slow[name] = d
}

// begin waits as long as the hook is slow, and tells whether it must fail.
func (h *Hooks) begin(ctx context.Context, name string) error {
	h.mu.Lock()
	d := h.slow[name] + h.jitter.next(name)
	h.mu.Unlock()
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			h.trace.Add("hook %s is killed", name)
			return fmt.Errorf("hook %s: %w", name, context.Cause(ctx))
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.panic[name] > 0 {
		h.panic[name]--
		panic("it was told to panic")
	}
	if h.fails[name] > 0 {
		h.fails[name]--
		return &hooks.ExitError{Hook: name, Code: 1, Stderr: "it was told to fail"}
	}
	return nil
}

// Configure implements actors.HookRunner.
func (h *Hooks) Configure(ctx context.Context, file hooks.File, workingDir string, scope hooks.Scope) (*hooks.Config, error) {
	s, err := h.readScript(file.Path)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return h.real.Configure(ctx, file, workingDir, scope)
	}
	text, err := yaml.Marshal(s.Config)
	if err != nil {
		return nil, fmt.Errorf("hook %s: %w", file.Name, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := string(scope) + "\n" + string(text)
	if config, ok := h.scripts.configs[key]; ok {
		return config, nil
	}
	config, err := hooks.ParseConfig(scope, text)
	if err != nil {
		return nil, fmt.Errorf("hook %s: %w", file.Name, err)
	}
	h.scripts.configs[key] = config
	return config, nil
}

// Run implements actors.HookRunner.
func (h *Hooks) Run(ctx context.Context, run hooks.Run) (result hooks.Result, err error) {
	h.trace.Add("hook %s: %s", run.Hook.Name, describe(run.Contexts))
	ended := false // a panic is no success
	leave := h.witness.hookRun(run)
	defer func() { leave(ended && err == nil) }()
	result, err = h.run(ctx, run)
	ended = true
	return result, err
}

func (h *Hooks) run(ctx context.Context, run hooks.Run) (hooks.Result, error) {
	if err := h.begin(ctx, run.Hook.Name); err != nil {
		return hooks.Result{}, err
	}
	s, err := h.readScript(run.Hook.Path)
	if err != nil {
		return hooks.Result{}, err
	}
	if s == nil {
		return h.real.Run(ctx, run)
	}
	return h.play(run, s)
}

func (h *Hooks) play(run hooks.Run, s *script) (result hooks.Result, err error) {
	binding := run.Contexts[len(run.Contexts)-1].Binding
	step, ok := s.Runs[binding]
	if !ok {
		return result, nil
	}
	h.mu.Lock()
	key := run.Hook.Name + " " + binding
	h.runs[key]++
	n := h.runs[key]
	h.mu.Unlock()
	if step.Times > 0 && n > step.Times {
		return result, nil
	}
	if step.Count != "" {
		step.Values = append(slices.Clip(step.Values), map[string]any{"op": "add", "path": step.Count, "value": int64(countObjects(run.Contexts))})
	}
	if result.ValuesPatch, err = patchOf(step.Values); err != nil {
		return result, err
	}
	for _, o := range step.Objects {
		text, err := values.JSON(o)
		if err != nil {
			return result, err
		}
		result.ObjectPatches = append(append(result.ObjectPatches, text...), '\n')
	}
	result.ConfigPatch, err = patchOf(step.Config)
	return result, err
}

// countObjects counts the objects in the snapshots of the last context; those of one run
// are the same in all of its contexts (C35).
func countObjects(contexts []hooks.Context) int {
	n := 0
	for _, objects := range contexts[len(contexts)-1].Snapshots {
		n += len(objects)
	}
	return n
}

func patchOf(ops []any) (values.Patch, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	text, err := values.JSON(ops)
	if err != nil {
		return nil, err
	}
	patch, _, err := values.ParsePatch(text)
	return patch, err
}

// Enabled implements actors.HookRunner.
func (h *Hooks) Enabled(ctx context.Context, e hooks.EnabledScript) (bool, error) {
	name := e.Module + "/enabled"
	leave := h.witness.enter("the enabled script of "+e.Module, "discovery")
	defer leave(event{module: e.Module, what: "enabled", ok: true})
	if err := h.begin(ctx, name); err != nil {
		h.trace.Add("enabled script of %s fails", e.Module)
		return false, err
	}
	s, err := h.readScript(e.Path)
	if err != nil {
		return false, err
	}
	on := s != nil && s.Enabled == "true"
	if s == nil {
		if on, err = h.real.Enabled(ctx, e); err != nil {
			return false, err
		}
	}
	h.trace.Add("enabled script of %s: %t", e.Module, on)
	return on, nil
}

// readScript returns nil for a file that is no scripted hook.
func (h *Hooks) readScript(path string) (*script, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(data, []byte(scripted)) {
		return nil, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.scripts.scripts[string(data)]; ok {
		return s, nil
	}
	var s script
	if err := yaml.UnmarshalStrict(data[len(scripted):], &s); err != nil {
		return nil, fmt.Errorf("scripted hook %s: %w", path, err)
	}
	if s.Config == nil && s.Enabled == "" {
		return nil, errors.New("scripted hook " + path + ": it has neither config nor enabled")
	}
	h.scripts.scripts[string(data)] = &s
	return &s, nil
}

// describe names contexts as a trace shows them.
func describe(contexts []hooks.Context) string {
	var parts []string
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
	return strings.Join(parts, " + ")
}

func nameOf(c hooks.Context) string {
	if c.Resource != nil {
		return c.Resource.Kind + " " + c.Resource.Namespace + "/" + c.Resource.Name
	}
	var object struct {
		Metadata struct{ Namespace, Name string }
	}
	if err := yaml.Unmarshal(c.Object, &object); err != nil || object.Metadata.Name == "" {
		return string(c.FilterResult)
	}
	return object.Metadata.Namespace + "/" + object.Metadata.Name
}
