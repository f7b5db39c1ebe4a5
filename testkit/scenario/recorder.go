package scenario

import (
	"bytes"
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

	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube/objectpatch"
	"addon-operator/values"
)

// recorder stands between the actors and what they touch: it notes the runs of hooks,
// makes them fail, and knows whether anything is under way.
type recorder struct {
	hooks    *hooks.Runner
	releases work.Releases
	objects  work.Objects
	crds     work.CRDs
	given    tree // what the hook givenHook patches

	underWay atomic.Int64
	done     atomic.Uint64 // actions that have ended

	mu        sync.Mutex
	runs      []hookRun
	fails     map[string]int
	helmFails map[string]int             // by release
	ticks     map[string]map[string]bool // names of schedule bindings by crontab
	parsed    map[string]cron.Schedule   // by crontab
}

// hookRun is a run of a hook that has ended.
type hookRun struct {
	hook                     string
	contexts                 []any // as the hook read them
	valuesPatch, configPatch []any
	objectPatches            []any
	err                      error
}

func newRecorder() *recorder {
	return &recorder{
		fails: map[string]int{}, helmFails: map[string]int{},
		ticks: map[string]map[string]bool{}, parsed: map[string]cron.Schedule{},
	}
}

// action notes that something is under way until the function it returns is called.
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
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, hook := range found {
		r.withoutTime(hook.Config)
	}
	return found, err
}

// withoutTime is called with the lock.
func (r *recorder) withoutTime(config *hooks.Config) {
	for i, s := range config.Schedules {
		if r.ticks[s.Crontab] == nil {
			r.ticks[s.Crontab] = map[string]bool{}
		}
		r.ticks[s.Crontab][s.Name] = true
		r.parsed[s.Crontab] = s.Parsed
		config.Schedules[i].Parsed = never{}
	}
	for i := range config.Kubernetes {
		config.Kubernetes[i].ResynchronizationPeriod = 0
	}
	config.Settings.ExecutionMinInterval, config.Settings.ExecutionBurst = 0, 0
}

// never is a crontab that does not fire by itself.
type never struct{}

// Next implements cron.Schedule: the zero time is never.
func (never) Next(time.Time) time.Time { return time.Time{} }

// Run implements work.HookRunner.
func (r *recorder) Run(ctx context.Context, run hooks.Run) (hooks.Result, error) {
	defer r.action()()
	if filepath.Base(run.Hook.Path) == givenHook {
		patch, err := patchOf(r.given)
		return hooks.Result{ValuesPatch: patch}, err
	}
	result, err := hooks.Result{}, r.mustFail(run.Hook.Name)
	if err == nil {
		result, err = r.hooks.Run(ctx, run)
	}
	if ctx.Err() == nil {
		r.note(run, result, err)
	}
	return result, err
}

func (r *recorder) mustFail(hook string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, n := range r.fails {
		if n > 0 && isFile(hook, name) {
			r.fails[name]--
			return &hooks.ExitError{Hook: hook, Code: 1, Stderr: "the scenario makes it fail"}
		}
	}
	return nil
}

// isFile reports whether a path ends with the parts of another.
func isFile(path, end string) bool { return path == end || strings.HasSuffix(path, "/"+end) }

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

// plain is a value as the tree of its JSON.
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

func patchOf(section tree) (values.Patch, error) {
	var ops []any
	for key, value := range section {
		key = strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		ops = append(ops, map[string]any{"op": "add", "path": "/" + values.GlobalKey + "/" + key, "value": value})
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
	return r.hooks.Enabled(ctx, s)
}

// Apply implements work.Releases.
func (r *recorder) Apply(ctx context.Context, m helm.Module) (helm.Outcome, error) {
	defer r.action()()
	if err := r.helmMustFail(m.Name); err != nil {
		return helm.Outcome{}, err
	}
	return r.releases.Apply(ctx, m)
}

// Uninstall implements work.Releases.
func (r *recorder) Uninstall(ctx context.Context, release string) (bool, error) {
	defer r.action()()
	if err := r.helmMustFail(release); err != nil {
		return false, err
	}
	return r.releases.Uninstall(ctx, release)
}

// Purge implements work.Releases.
func (r *recorder) Purge(ctx context.Context, release string) (bool, error) {
	defer r.action()()
	if err := r.helmMustFail(release); err != nil {
		return false, err
	}
	return r.releases.Purge(ctx, release)
}

// Ours implements work.Releases.
func (r *recorder) Ours(ctx context.Context, releases []string) ([]string, error) {
	defer r.action()()
	return r.releases.Ours(ctx, releases)
}

// Releases implements work.Releases.
func (r *recorder) Releases(ctx context.Context) ([]string, error) {
	defer r.action()()
	return r.releases.Releases(ctx)
}

// CheckObjectPatches implements work.Objects.
func (r *recorder) CheckObjectPatches(ctx context.Context, patches []objectpatch.Patch) error {
	return r.objects.CheckObjectPatches(ctx, patches)
}

// ApplyObjectPatches implements work.Objects.
func (r *recorder) ApplyObjectPatches(ctx context.Context, patches []objectpatch.Patch) (left []objectpatch.Patch, err error) {
	defer r.action()()
	return r.objects.ApplyObjectPatches(ctx, patches)
}

// EnsureCRDs implements work.CRDs.
func (r *recorder) EnsureCRDs(ctx context.Context, modules []helm.Module) error {
	defer r.action()()
	return r.crds.EnsureCRDs(ctx, modules)
}

// EnsureSubcharts implements work.CRDs.
func (r *recorder) EnsureSubcharts(ctx context.Context, m helm.Module) error {
	defer r.action()()
	return r.crds.EnsureSubcharts(ctx, m)
}

// takeRuns are the runs since it was called last.
func (r *recorder) takeRuns() []hookRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := r.runs
	r.runs = nil
	return runs
}

// crontabs are the names of schedule bindings by crontab, and all of them in words.
func (r *recorder) crontabs() (byCrontab map[string]map[string]bool, words []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for crontab, names := range r.ticks {
		for name := range names {
			words = append(words, fmt.Sprintf("%s (%s)", name, crontab))
		}
	}
	slices.Sort(words)
	return maps.Clone(r.ticks), words
}

// schedules are the crontabs of all hooks.
func (r *recorder) schedules() map[string]cron.Schedule {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.parsed)
}

// failHelm makes the next installs, upgrades and uninstalls of a release fail.
func (r *recorder) failHelm(release string, times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.helmFails[release] = max(times, 1)
}

func (r *recorder) helmMustFail(release string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.helmFails[release] == 0 {
		return nil
	}
	r.helmFails[release]--
	return fmt.Errorf("release %s: the scenario makes Helm fail", release)
}

// fail makes the next runs of a hook fail.
func (r *recorder) fail(hook string, times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails[hook] = max(times, 1)
}

// errNotRunning is what steps meet that need the operator.
var errNotRunning = errors.New("the operator does not run, because its start was refused")
