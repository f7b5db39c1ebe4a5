package scenario

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
func (r *recorder) EnsureCRDs(ctx context.Context, modules []helm.Module) (err error) {
	defer r.action()()
	return r.CRDs.EnsureCRDs(ctx, modules)
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

// mostCalls is how many calls of a stand-in are answered, so that a hook that loops ends, and its
// test does not fill the disk.
const mostCalls = 1000

// answer is what a stand-in for a command writes, and how it exits.
type answer struct {
	Args   *string `json:"args"` // pattern of all, with * and ?; nil: any
	Stdout any     `json:"stdout"`
	Stderr string  `json:"stderr"`
	Exit   int     `json:"exit"`
	Stdin  bool    `json:"stdin"` // read and note it
	Times  int     `json:"times"` // 0: always
}

// call is one of a stand-in for a command.
type call struct {
	command string
	args    []string
	stdin   string // without its end above 1 MiB; "" if the answer does not want it
	unfit   bool   // there was no answer
}

// String is the call in a line.
func (c call) String() string { return strings.TrimSpace(c.command + " " + strings.Join(c.args, " ")) }

// commands take the place of the programs that hooks call, by shell scripts that come first in
// their PATH. A script runs in a process of the hook, perhaps
// at the same time as others, so all state is in files:
//
//	bin/NAME                   the script
//	calls/NAME/stdout.I        what answer I writes; stderr.I likewise
//	calls/NAME/K/args          the arguments of call K, from 1, each ended by a zero byte
//	calls/NAME/K/stdin, unfit  what it read; that it had no answer
//	calls/NAME/used.I.N        answer I was given N times; only for answers with times
type commands struct {
	dir     string
	answers map[string][]answer // by name of the command
	read    map[string]int      // how many calls take has returned, by command
}

// bin is the directory of the programs, which belongs into the PATH.
func (s *commands) bin() string              { return filepath.Join(s.dir, "bin") }
func (s *commands) notes(name string) string { return filepath.Join(s.dir, "calls", name) }

// write makes the programs. Each answer becomes a case of the script, in the order of the test: the
// first one that fits and is not used up writes its files and ends the script. What follows the
// last case is for calls without an answer, which check reports even if the hook ignores the exit
// code.
func (s *commands) write() error {
	s.read = map[string]int{}
	for name, list := range s.answers {
		notes := s.notes(name)
		if err := errors.Join(os.MkdirAll(s.bin(), 0o755), os.MkdirAll(notes, 0o755)); err != nil {
			return err
		}
		script := fmt.Sprintf(standInStart, quoted(os.Getenv("PATH")), quoted(notes), mostCalls, name)
		for i, a := range list {
			for stream, text := range map[string]string{"stdout": textOf(a.Stdout), "stderr": textOf(a.Stderr)} {
				if err := os.WriteFile(filepath.Join(notes, fmt.Sprintf("%s.%d", stream, i)), []byte(text), 0o644); err != nil {
					return err
				}
			}
			pattern, stdin := "*", ""
			if a.Args != nil {
				pattern = shellPattern(*a.Args)
			}
			if a.Stdin {
				stdin = `head -c 1048576 >"$k/stdin"; `
			}
			script += fmt.Sprintf(standInAnswer, pattern, i, a.Times, stdin, i, i, a.Exit)
		}
		script += fmt.Sprintf(": >\"$k/unfit\"\necho \"%s: the test has no answer for: $*\" >&2\nexit 1\n", name)
		if err := os.WriteFile(filepath.Join(s.bin(), name), []byte(script), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// standInStart notes the call in a directory of its number, and has the function claim ANSWER TIMES,
// which succeeds at most TIMES times, or always for 0. mkdir fails if there is such a
// directory, so it counts correctly when hooks call at the same time. PATH is set to that
// of the test's process, or the script would call stand-ins for mkdir, cat and head.
//
// Its parameters are that PATH, the directory of the notes, mostCalls and the name.
const standInStart = `#!/bin/sh
PATH=%s
d=%s
n=1
until [ ! -e "$d/$n" ] && mkdir "$d/$n" 2>/dev/null; do
  n=$((n + 1))
  [ $n -le %d ] || { echo "%s: too many calls for one test" >&2; exit 1; }
done
k=$d/$n
for a do printf '%%s\000' "$a"; done >"$k/args"
claim() {
  [ "$2" -gt 0 ] || return 0
  n=1
  until mkdir "$d/used.$1.$n" 2>/dev/null; do n=$((n + 1)); [ $n -le "$2" ] || return 1; done
}
`

// standInAnswer is the case of one answer.
const standInAnswer = `case "$*" in %s)
  if claim %d %d; then %scat "$d/stdout.%d"; cat "$d/stderr.%d" >&2; exit %d; fi ;;
esac
`

// quoted is a text as a word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// shellPattern is a pattern for case in which nothing but * and ? has a meaning. The empty word in
// front makes it one also when the pattern is empty.
func shellPattern(pattern string) string {
	return quoted("") + regexp.MustCompile(`[^*?]+`).ReplaceAllStringFunc(pattern, quoted)
}

// likePattern reports whether a text is as a pattern with * and ?, by the rules of shellPattern: *
// also stands for slashes and ends of lines.
func likePattern(pattern, text string) bool {
	expression := regexp.QuoteMeta(pattern)
	expression = strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(expression)
	return regexp.MustCompile(`(?s)^` + expression + `$`).MatchString(text)
}

// textOf is what a stand-in writes: lines, or JSON of anything else.
func textOf(value any) string {
	text, ok := value.(string)
	if !ok && value != nil {
		data, err := values.JSON(value)
		if err != nil {
			return err.Error()
		}
		text = string(data)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// take returns the calls since it was called last, by command, and those of a command in their
// order. It is called when the operator is idle; a call of a program that a hook has left behind
// may appear later.
func (s *commands) take() (calls []call) {
	for _, name := range slices.Sorted(maps.Keys(s.answers)) {
		for {
			dir := filepath.Join(s.notes(name), strconv.Itoa(s.read[name]+1))
			if _, err := os.Stat(dir); err != nil {
				break
			}
			s.read[name]++
			args, _ := os.ReadFile(filepath.Join(dir, "args")) // a script that was killed may have none
			c := call{command: name, args: strings.Split(string(args), "\x00")}
			c.args = c.args[:len(c.args)-1]
			stdin, _ := os.ReadFile(filepath.Join(dir, "stdin")) // it is there when it was asked for
			c.stdin = string(stdin)
			_, err := os.Stat(filepath.Join(dir, "unfit"))
			c.unfit = err == nil
			calls = append(calls, c)
		}
	}
	return calls
}

// Unlike implements match.Happened: another command is another call, other arguments are a difference. A list of
// arguments is compared one by one, a text, which is a pattern, and matchers with all of them, joined by spaces.
func (c call) Unlike(want map[string]any) (list []string, isIt bool) {
	if want["command"] != c.command {
		return nil, false
	}
	all := strings.Join(c.args, " ")
	switch args := want["args"].(type) {
	case string:
		if !likePattern(args, all) {
			list = append(list, fmt.Sprintf("args must be like %q, is %q", args, all))
		}
	case []any:
		list = Difference("args", args, plain(c.args))
	case map[string]any:
		list = Difference("args", args, all)
	}
	if stdin, ok := want["stdin"]; ok {
		list = append(list, Difference("stdin", stdin, strings.TrimSuffix(c.stdin, "\n"))...)
	}
	return list, true
}

// check compares the calls of stand-ins since the last expect. One that had no answer is a problem
// always.
func (s *commands) check(want []map[string]any) (problems []string) {
	calls := s.take()
	for _, c := range calls {
		if c.unfit {
			problems = append(problems, fmt.Sprintf("given.commands.%s has no answer for the call: %s", c.command, c))
		}
	}
	return append(problems, unmatched(want, calls, "call")...)
}
