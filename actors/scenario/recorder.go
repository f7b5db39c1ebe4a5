package scenario

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/util/yaml"

	"addon-operator/actors"

	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/values"
)

// recorder is what the actors call in place of hooks and Helm. It passes calls on to
// the real ones, records the runs of hooks, fails calls as the steps want, and knows whether a call
// is in progress, by which the play knows when the operator is idle (engine.go). It outlives restarts
// of the operator. Runs of several queues call it at the same time.
type recorder struct {
	// These are of the latest start; what is not done below they do themselves.
	helmReleases
	actors.CRDs
	hooks *hooks.Runner

	faults *faults
	env    func() []string // added to the environment of runs

	underWay atomic.Int64  // actions in progress
	done     atomic.Uint64 // actions that have ended, and requests to the API server

	mu       sync.Mutex
	runs     []hookRun          // in the order of their ends; see takeRuns
	crontabs map[string]crontab // of all hooks that were ever loaded, by crontab
}

type helmReleases = actors.Releases // its own name is that of a method

// hookRun is a run of a hook that has ended.
type hookRun struct {
	hook, binding string // the binding of the last context: those of triggers that waited are merged into the run
	line          string // the run in a line
	// tree is what an expectation is compared with: contexts and the last one of them, the results, and the text of
	// the error, which is null when the hook succeeded; its results may still be refused.
	tree map[string]any
}

// String is the run in one line.
func (r hookRun) String() string { return r.line }

// Unlike implements match.Happened. A run is another one when its hook or binding is.
func (r hookRun) Unlike(want map[string]any) (list []string, isIt bool) {
	hook, _ := want["hook"].(string)
	if binding, given := want["binding"]; !isFile(r.hook, hook) || given && binding != r.binding {
		return nil, false
	}
	want = maps.Clone(want)
	delete(want, "hook")
	delete(want, "binding")
	switch fails := want["fails"].(type) {
	case bool:
		if want["fails"] = nil; fails {
			want["fails"] = map[string]any{"$not": nil}
		}
	case string:
		want["fails"] = map[string]any{"$contains": fails}
	}
	return Difference("", want, r.tree), true
}

// isFile reports whether a path ends with the parts of another: authors name a hook by its file, or
// by as much of its path as they need.
func isFile(path, end string) bool { return path == end || strings.HasSuffix(path, "/"+end) }

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

// Configure implements actors.HookRunner. It takes time out of the configuration:
// crontabs fire by steps, nothing is repeated and nothing waits for its turn.
func (r *recorder) Configure(ctx context.Context, file hooks.File, workingDir string, scope hooks.Scope) ([]hooks.Hook, error) {
	defer r.action()()
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

// Run implements actors.HookRunner. Only runs that ended by themselves are recorded: where a stop or
// a timeout cuts one differs from play to play.
func (r *recorder) Run(ctx context.Context, run hooks.Run) (result hooks.Result, err error) {
	defer r.action()()
	if r.faults.TakeFile(FaultOfHook, run.Hook.Name) {
		err = &hooks.ExitError{Hook: run.Hook.Name, Code: 1, Stderr: "the scenario makes it fail"}
	} else {
		run.Env = append(slices.Clip(run.Env), r.env()...)
		result, err = r.hooks.Run(ctx, run)
	}
	if ctx.Err() == nil && filepath.Base(run.Hook.Path) != givenHook {
		r.note(run, result, err)
	}
	return result, err
}

// note records a run. It copies what the run was given and what it returned, because the actors go
// on with both.
func (r *recorder) note(run hooks.Run, result hooks.Result, err error) {
	last := run.Contexts[len(run.Contexts)-1]
	noted := hookRun{hook: run.Hook.Name, binding: cmp.Or(last.Binding, last.GroupName), line: run.Hook.Name + " " + Describe(last)}
	noted.tree = map[string]any{
		"contexts": plain(run.Contexts), "context": plain(last), "fails": nil, "objectPatches": documents(result.ObjectPatches),
		"valuesPatch": plain(append(values.Patch{}, result.ValuesPatch...)), // [] when there is none
		"configPatch": plain(append(values.Patch{}, result.ConfigPatch...)),
	}
	if err != nil {
		noted.line += " fails: " + err.Error()
		noted.tree["fails"] = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = append(r.runs, noted)
}

// Describe names a context as traces show it. What it contains is in it only as numbers, so
// that a trace stays readable, and plays under different seeds can be compared by it.
func Describe(c hooks.Context) string {
	text := cmp.Or(c.Binding, c.GroupName)
	if c.Type != "" {
		text += " " + string(c.Type)
	}
	if c.WatchEvent != "" {
		text += " " + c.WatchEvent + " " + nameOfObject(c)
	}
	if c.Type == hooks.TypeSynchronization {
		text += fmt.Sprintf(" of %d", len(c.Objects))
	}
	if len(c.Snapshots) > 0 {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(c.Snapshots)) {
			names = append(names, fmt.Sprintf("%s:%d", name, len(c.Snapshots[name])))
		}
		text += " snapshots " + strings.Join(names, ",")
	}
	return text
}

// nameOfObject is what an event is about: its object, or the filter result, where the binding does not keep full
// objects.
func nameOfObject(c hooks.Context) string {
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

// documents are the object patches as the hook wrote them, JSON or YAML. What cannot be
// read has made the run fail.
func documents(text []byte) any {
	list := []any{}
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

// Enabled implements actors.HookRunner.
func (r *recorder) Enabled(ctx context.Context, s hooks.EnabledScript) (hooks.Answer, error) {
	defer r.action()()
	s.Env = append(slices.Clip(s.Env), r.env()...)
	return r.hooks.Enabled(ctx, s)
}

var errHelm = errors.New("the scenario makes Helm fail")

// helmAction does something with a release, unless the scenario makes it fail.
func helmAction[T any](r *recorder, release string, do func() (T, error)) (none T, err error) {
	defer r.action()()
	if r.faults.Take(FaultOfHelm+release, 1) > 0 {
		return none, errHelm
	}
	return do()
}

// Apply implements actors.Releases.
func (r *recorder) Apply(ctx context.Context, m helm.Module) (helm.Outcome, error) {
	return helmAction(r, m.Name, func() (helm.Outcome, error) { return r.helmReleases.Apply(ctx, m) })
}

// Uninstall implements actors.Releases.
func (r *recorder) Uninstall(ctx context.Context, m helm.Module) (existed bool, err error) {
	return helmAction(r, m.Name, func() (bool, error) { return r.helmReleases.Uninstall(ctx, m) })
}

// Purge implements actors.Releases.
func (r *recorder) Purge(ctx context.Context, release string, how helm.Purging) (existed bool, err error) {
	return helmAction(r, release, func() (bool, error) { return r.helmReleases.Purge(ctx, release, how) })
}

// EnsureCRDs implements actors.CRDs. While it waits for a kind to be served, it makes no requests.
func (r *recorder) EnsureCRDs(ctx context.Context, modules []helm.Module) (written map[string]string, err error) {
	defer r.action()()
	return r.CRDs.EnsureCRDs(ctx, modules)
}

// EnsureSubcharts implements actors.CRDs.
func (r *recorder) EnsureSubcharts(ctx context.Context, m helm.Module) error {
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
