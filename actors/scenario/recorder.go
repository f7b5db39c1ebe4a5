package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/util/yaml"

	"addon-operator/actors/scenario/match"
	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/values"
)

// recorder is what the actors call in place of hooks and Helm. It passes calls on to
// the real ones, records the runs of hooks, fails calls as the steps want, and knows whether a call
// is in progress, by which the play knows when the operator is idle (idle.go). It outlives restarts
// of the operator. Runs of several queues call it at the same time.
type recorder struct {
	// These are of the latest start; what is not done below they do themselves.
	helmReleases
	hooks *hooks.Runner

	faults *Faults
	given  match.Tree      // what the hook givenHook patches
	env    func() []string // added to the environment of runs; nil: nothing

	underWay atomic.Int64  // actions in progress
	done     atomic.Uint64 // actions that have ended, and requests to the API server

	mu       sync.Mutex
	runs     []hookRun          // in the order of their ends; see takeRuns
	crontabs map[string]crontab // of all hooks that were ever loaded, by crontab
}

type helmReleases = work.Releases // its own name is that of a method

// hookRun is a run of a hook that has ended. All lists are trees of JSON, which is what
// expectations are compared with.
type hookRun struct {
	hook                     string
	contexts                 []any // as the hook read them; never empty
	valuesPatch, configPatch []any
	objectPatches            []any
	err                      error // nil when the hook succeeded; its results may still be refused
}

func newRecorder(e *Engine, given match.Tree) *recorder {
	return &recorder{faults: e.Faults, given: given, crontabs: map[string]crontab{}}
}

// action notes that something is in progress until the function it returns is called. That counts
// the end before it counts down, so that whoever sees no action in progress also sees that one has
// ended.
func (r *recorder) action() (end func()) {
	r.underWay.Add(1)
	return func() {
		r.done.Add(1)
		r.underWay.Add(-1)
	}
}

// Configure implements work.HookRunner. It takes time out of the configuration:
// crontabs fire by steps, nothing is repeated and nothing waits for its turn.
func (r *recorder) Configure(ctx context.Context, file hooks.File, workingDir string, scope hooks.Scope) ([]hooks.Hook, error) {
	defer r.action()()
	if filepath.Base(file.Path) == givenHook {
		config, err := hooks.ParseConfig(scope, []byte(`{"configVersion": "v1", "onStartup": 0}`))
		return []hooks.Hook{{File: file, Config: config}}, err
	}
	found, err := r.hooks.Configure(ctx, file, workingDir, scope)
	for _, hook := range found {
		r.withoutTime(hook.Config)
	}
	return found, err
}

// withoutTime changes a configuration so that nothing in it depends on the real clock. It keeps the
// crontabs for the steps tick and advance, which fire them.
func (r *recorder) withoutTime(config *hooks.Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, s := range config.Schedules {
		bindings := r.crontabs[s.Crontab].bindings
		if !slices.Contains(bindings, s.Name) {
			bindings = append(slices.Clip(bindings), s.Name)
		}
		r.crontabs[s.Crontab] = crontab{s.Parsed, bindings}
		config.Schedules[i].Parsed = never{}
	}
	config.Settings.ExecutionMinInterval, config.Settings.ExecutionBurst = 0, 0
}

// never is a crontab that does not fire by itself.
type never struct{}

// Next implements cron.Schedule: the zero time is never.
func (never) Next(time.Time) time.Time { return time.Time{} }

// Run implements work.HookRunner. Only runs that ended by themselves are recorded: where a stop or
// a timeout cuts one differs from play to play.
func (r *recorder) Run(ctx context.Context, run hooks.Run) (hooks.Result, error) {
	defer r.action()()
	if filepath.Base(run.Hook.Path) == givenHook {
		patch, err := globalPatch(r.given)
		return hooks.Result{ValuesPatch: patch}, err
	}
	var result hooks.Result
	var err error
	if r.faults.TakeFile(FaultOfHook, run.Hook.Name) {
		err = &hooks.ExitError{Hook: run.Hook.Name, Code: 1, Stderr: "the scenario makes it fail"}
	} else {
		if r.env != nil {
			run.Env = append(slices.Clip(run.Env), r.env()...)
		}
		result, err = r.hooks.Run(ctx, run)
	}
	if ctx.Err() == nil {
		r.note(run, result, err)
	}
	return result, err
}

// isFile reports whether a path ends with the parts of another: authors name a hook by its file, or
// by as much of its path as they need.
func isFile(path, end string) bool { return path == end || strings.HasSuffix(path, "/"+end) }

// note records a run. It copies what the run was given and what it returned, because the actors go
// on with both.
func (r *recorder) note(run hooks.Run, result hooks.Result, err error) {
	noted := hookRun{hook: run.Hook.Name, err: err}
	for _, c := range run.Contexts {
		noted.contexts = append(noted.contexts, plain(c))
	}
	for _, op := range result.ValuesPatch {
		noted.valuesPatch = append(noted.valuesPatch, plain(op))
	}
	for _, op := range result.ConfigPatch {
		noted.configPatch = append(noted.configPatch, plain(op))
	}
	noted.objectPatches = documents(result.ObjectPatches)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = append(r.runs, noted)
}

// documents are the object patches as the hook wrote them, JSON or YAML. What cannot be
// read has made the run fail.
func documents(text []byte) (list []any) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var document map[string]any
		if err := decoder.Decode(&document); err != nil {
			return list
		}
		if document != nil {
			list = append(list, plain(document))
		}
	}
}

// plain is a value as the tree of its JSON, with integers as int64, or the text of the error: then
// no expectation fits, and the difference shows why.
func plain(value any) any {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	out, err := values.ParseJSON(data)
	if err != nil {
		return err.Error()
	}
	return out
}

// globalPatch adds the keys of a section to the global values. The order of its operations is not
// fixed; their paths differ, so it does not matter.
func globalPatch(section match.Tree) (values.Patch, error) {
	var ops []any
	for key, value := range section {
		ops = append(ops, map[string]any{"op": "add", "path": values.JSONPointer(values.GlobalKey, key), "value": value})
	}
	return PatchOf(ops)
}

// PatchOf is the patch of these operations, trees with op, path and value; nil when there are none.
// It takes the way through the text that a hook would write, so that it is checked as such a text
// is.
func PatchOf(ops []any) (values.Patch, error) {
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

// Enabled implements work.HookRunner.
func (r *recorder) Enabled(ctx context.Context, s hooks.EnabledScript) (hooks.Answer, error) {
	defer r.action()()
	if r.env != nil {
		s.Env = append(slices.Clip(s.Env), r.env()...)
	}
	return r.hooks.Enabled(ctx, s)
}

// Apply implements work.Releases.
func (r *recorder) Apply(ctx context.Context, m helm.Module) (helm.Outcome, error) {
	defer r.action()()
	if r.faults.Take(FaultOfHelm+m.Name, 1) > 0 {
		return helm.Outcome{}, errHelm
	}
	return r.helmReleases.Apply(ctx, m)
}

// Uninstall implements work.Releases.
func (r *recorder) Uninstall(ctx context.Context, m helm.Module) (bool, error) {
	defer r.action()()
	if r.faults.Take(FaultOfHelm+m.Name, 1) > 0 {
		return false, errHelm
	}
	return r.helmReleases.Uninstall(ctx, m)
}

// Purge implements work.Releases.
func (r *recorder) Purge(ctx context.Context, release string, how helm.Purging) (bool, error) {
	defer r.action()()
	if r.faults.Take(FaultOfHelm+release, 1) > 0 {
		return false, errHelm
	}
	return r.helmReleases.Purge(ctx, release, how)
}

var errHelm = errors.New("the scenario makes Helm fail")

// recordedCRDs are in progress while they wait for a kind to be served, which makes no requests.
type recordedCRDs struct {
	work.CRDs
	*recorder
}

// EnsureCRDs implements work.CRDs.
func (r recordedCRDs) EnsureCRDs(ctx context.Context, modules []helm.Module) (written map[string]string, err error) {
	defer r.action()()
	return r.CRDs.EnsureCRDs(ctx, modules)
}

// EnsureSubcharts implements work.CRDs.
func (r recordedCRDs) EnsureSubcharts(ctx context.Context, m helm.Module) error {
	defer r.action()()
	return r.CRDs.EnsureSubcharts(ctx, m)
}

// takeRuns are the runs since it was called last.
func (r *recorder) takeRuns() (taken []hookRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken, r.runs = r.runs, nil
	return taken
}

// crontab is one of the hooks that were loaded.
type crontab struct {
	schedule cron.Schedule
	bindings []string // the names of the schedule bindings that have it, each once
}

// schedules are the crontabs of all hooks.
func (r *recorder) schedules() map[string]crontab {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.crontabs)
}
