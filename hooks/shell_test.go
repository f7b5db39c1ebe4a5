package hooks

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shellHook is a hook with a handler of each kind; each prints its own name.
const shellHook = `source /shell_lib.sh
__config__() { echo '{"configVersion": "v1", "onStartup": 1}'; }
for handler in __on_startup __on_kubernetes::pods::synchronization __on_kubernetes::pods::added __on_kubernetes::pods::deleted \
    __on_kubernetes::pods::added_or_modified __on_kubernetes::nodes __on_group::a-group __on_schedule::every-minute \
    __on_validating::policy __on_mutating::sidecar __on_conversion::crontabs::v1::example.com.v2 __on_conversion::crontabs __main__; do
  eval "$handler() { echo \"$handler \$BINDING_CONTEXT_CURRENT_INDEX \$BINDING_CONTEXT_CURRENT_BINDING\"; }"
done
hook::run "$@"`

// newShellRunner makes a runner that serves the library, which stays in its directory for temporary files.
func newShellRunner(t testing.TB) *Runner {
	t.Helper()
	if _, err := os.Stat("/shell_lib.sh"); err == nil {
		t.Skip("this machine has a /shell_lib.sh")
	}
	tools, err := filepath.Abs("../bin")
	must(t, err)
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("there is no jq; make devcluster builds bin/jq")
	}
	runner, _ := newRunner(t, Options{})
	t.Cleanup(func() {
		library, err := filepath.Glob(filepath.Join(runner.options.TmpDir, runPrefix+"shell-*"))
		must(t, err)
		if len(library) > 1 {
			t.Errorf("the library is written more than once: %q", library)
		}
		for _, dir := range library {
			must(t, os.RemoveAll(dir))
		}
	})
	return runner
}

func TestShellLibraryChoosesHandlers(t *testing.T) {
	runner, hook := newShellRunner(t), script(t, shellHook)
	if found, err := runner.Configure(t.Context(), hook.File, "", Module); err != nil || found[0].Config.Orders[OnStartup] != 1 {
		t.Errorf("--config: %+v, %v", found, err)
	}
	event := func(binding, what string) Context {
		return Context{Binding: binding, Type: TypeEvent, WatchEvent: what, Object: raw(`{}`)}
	}
	result, err := runner.Run(t.Context(), Run{Hook: hook, Contexts: []Context{
		{Binding: "onStartup"}, {Binding: "beforeHelm"}, {Binding: "pods", Type: TypeSynchronization}, {Binding: "nodes", Type: TypeSynchronization},
		event("pods", Added), event("pods", Modified), event("pods", Deleted), event("nodes", Deleted), event("a b", Added),
		{Binding: "any", Type: TypeGroup, GroupName: "a-group"}, {Binding: "every-minute", Type: TypeSchedule}, {Binding: "other", Type: TypeSchedule},
	}})
	const want = `__on_startup 0 onStartup
__main__ 1 beforeHelm
__on_kubernetes::pods::synchronization 2 pods
__on_kubernetes::nodes 3 nodes
__on_kubernetes::pods::added 4 pods
__on_kubernetes::pods::added_or_modified 5 pods
__on_kubernetes::pods::deleted 6 pods
__on_kubernetes::nodes 7 nodes
__main__ 8 a b
__on_group::a-group 9 any
__on_schedule::every-minute 10 every-minute
__main__ 11 other`
	if err != nil || result.Output != want {
		t.Errorf("%v, it prints\n%s\nwant\n%s", err, result.Output, want)
	}
	// Contexts that this operator does not write: those of reviews.
	file := filepath.Join(t.TempDir(), "contexts.json")
	must(t, os.WriteFile(file, []byte(`[{"binding": "policy", "type": "Validating"}, {"binding": "sidecar", "type": "Mutating"},
{"binding": "crontabs", "type": "Conversion", "fromVersion": "v1", "toVersion": "example.com/v2"},
{"binding": "crontabs", "type": "Conversion", "fromVersion": "v2", "toVersion": "v3"}]`), 0o600))
	cmd := exec.Command(hook.Path)
	cmd.Env = append(os.Environ(), append(runner.shell.environment(hook.Path), envContext+"="+file)...)
	out, err := cmd.CombinedOutput()
	const reviews = `__on_validating::policy 0 policy
__on_mutating::sidecar 1 sidecar
__on_conversion::crontabs::v1::example.com.v2 2 crontabs
__on_conversion::crontabs 3 crontabs
`
	if err != nil || string(out) != reviews {
		t.Errorf("%v, it prints\n%s\nwant\n%s", err, out, reviews)
	}
}

func TestShellLibraryReadsContexts(t *testing.T) {
	runner := newShellRunner(t)
	object := `{"metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "a", "with-dash": "b"}}, "list": [{"n": 1}, 2], "yes": true, "no": false, "nothing": null, "0": "zero"}`
	for expression, want := range map[string]string{
		`context::get object.metadata.name`:                              "web",
		`context::get 'object.metadata.labels."app.kubernetes.io/name"'`: "a",
		`context::get "object.metadata.labels.'app.kubernetes.io/name'"`: "a",
		`context::get object.metadata.labels.with-dash`:                  "b",
		`context::get object.list.0.n`:                                   "1",
		`context::get object.list.name`:                                  "null",
		`context::get object.0`:                                          "zero",
		`context::get object.absent.deep`:                                "null",
		`context::get object.metadata.name.deep`:                         "null",
		`context::get --required object.metadata.name`:                   "web",
		`context::get "object.list[0].n"`:                                "1",
		`context::get 'object.list | length'`:                            "2",
		`context::has 'object.list[7]' || echo absent`:                   "absent",
		`context::get 'object.metadata.labels["with-dash"]'`:             "b",
		`context::jq -r '.object.metadata.name + "!"'`:                   "web!",
		`context::global::jq -r '.[1].binding, length'`:                  "pods\n2",
		`context::has object.nothing && echo there`:                      "there",
		`context::has object.list.1 && echo there`:                       "there",
		`context::has object.list.2 || echo absent`:                      "absent",
		`context::has object.metadata.name.deep || echo absent`:          "absent",
		`context::is_true object.yes && echo true`:                       "true",
		`context::is_true object.no || echo other`:                       "other",
		`context::is_false object.no && echo false`:                      "false",
		`context::is_false object.nothing || echo other`:                 "other",
		`context::is_null object.nothing && echo null`:                   "null",
		`context::is_null object.absent.deep && echo null`:               "null",
		`context::get --required object.absent || echo failed`:           "failed\ncontext::get: the context has no value at object.absent, which the hook requires",
	} {
		hook := script(t, "source /shell_lib.sh\nlist=mine\n__on_schedule::first() { [[ $list == mine ]]; }\n__main__() { "+expression+"; }\nhook::run \"$@\"")
		result, err := runner.Run(t.Context(), Run{Hook: hook, Contexts: []Context{
			{Binding: "first", Type: TypeSchedule}, {Binding: "pods", Type: TypeEvent, WatchEvent: Added, Object: raw(object)},
		}})
		if err != nil || result.Output != want {
			t.Errorf("%s: %v, it prints %q, want %q", expression, err, result.Output, want)
		}
	}
}

// Strict mode: the first handler that fails ends the run with its code, and says where that was.
func TestShellLibraryFails(t *testing.T) {
	runner, contexts := newShellRunner(t), []Context{{Binding: "one"}, {Binding: "two"}}
	for body, want := range map[string][]string{
		"__main__() { inner; }\ninner() { echo in $BINDING_CONTEXT_CURRENT_BINDING\nawk 'BEGIN { exit 7 }'\necho never; }": {"7", "in one", "hook.sh:5: in inner", "exit code 7: awk 'BEGIN { exit 7 }'"},
		`__main__() { echo "$NOT_SET"; }`:                 {"1", "NOT_SET: unbound variable"},
		`__main__() { false | true; }`:                    {"1", "hook.sh:3: in __main__", "exit code 1: "},
		`__main__() { local text; text=$(false; echo); }`: {"1", "exit code 1: false"},
		`__on_startup() { :; }`:                           {"1", "hook::run: no function handles the binding one; define one of __main__"},
	} {
		hook := script(t, "source /shell_lib.sh\n"+body+"\nhook::run \"$@\"")
		result, err := runner.Run(t.Context(), Run{Hook: hook, Contexts: contexts})
		var exit *ExitError
		if !errors.As(err, &exit) || !strings.Contains(err.Error(), "exit code "+want[0]) {
			t.Errorf("%s: the error is %v, want exit code %s", body, err, want[0])
		}
		for _, text := range want[1:] {
			if !strings.Contains(result.Output, text) {
				t.Errorf("%s: it prints no %q:\n%s", body, text, result.Output)
			}
		}
		if strings.Contains(result.Output, "never") || strings.Contains(result.Output, "in two") {
			t.Errorf("%s: it goes on:\n%s", body, result.Output)
		}
	}
}

// C23: a hook that names the library finds it; what it starts, and other hooks, do not notice. BASH_ENV of the environment
// stays.
func TestShellLibraryIsFoundByThoseThatNameIt(t *testing.T) {
	runner := newShellRunner(t)
	helper := filepath.Join(t.TempDir(), "functions.sh")
	must(t, os.WriteFile(helper, []byte("declare -A COLORS=([a]=red)\ngreet() { echo \"hello ${COLORS[a]}\"; }\necho \"arguments $*\"\n"), 0o644))
	for body, want := range map[string]string{
		". /shell_lib.sh\nsource " + helper + "\nsource " + helper + ` a b; greet; bash -c 'echo "env ${BASH_ENV-none}"; type source'`: "arguments \narguments a b\nhello red\nenv none\nsource is a shell builtin",
		"source /shell_lib.sh\nsource /shell_lib.sh\nsource /frameworks/shell/context.sh\ndeclare -F hook::run":                        "hook::run",
		"source /frameworks/shell/context.sh\ndeclare -F context::get; declare -F hook::run || echo no dispatcher":                     "context::get\nno dispatcher",
		`for f in $(find /frameworks/shell/ -type f -name "*.sh"); do source $f; done; declare -F hook::run`:                           "hook::run",
		`echo "env ${BASH_ENV-none}"`: "env none",
		"# source /shell_lib.sh\nalias greet='echo alias'; greet 2>/dev/null || echo none": "none",
	} {
		if result, err := runner.Run(t.Context(), Run{Hook: script(t, body)}); err != nil || result.Output != want {
			t.Errorf("%s: %v, it prints %q, want %q", body, err, result.Output, want)
		}
	}
	must(t, os.RemoveAll(runner.shell.dir)) // as a cleaner of /tmp does
	if _, err := runner.Run(t.Context(), Run{Hook: script(t, "source /shell_lib.sh")}); err != nil {
		t.Errorf("the library is not written again: %v", err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o700))
	if found := runner.shell.environment(pipe); found != nil {
		t.Errorf("a pipe names the library: %q", found)
	}
	t.Setenv(envBash, "/dev/null")
	others := newShellRunner(t)
	if _, err := others.Run(t.Context(), Run{Hook: script(t, "source /shell_lib.sh")}); err == nil || !strings.Contains(err.Error(), "/shell_lib.sh") {
		t.Errorf("BASH_ENV of the environment is replaced: %v", err)
	}
}

// BenchmarkShellLibrary measures a hook that uses the library and one that does not, in turns.
func BenchmarkShellLibrary(b *testing.B) {
	runner, contexts := newShellRunner(b), []Context{{Binding: "pods", Type: TypeEvent, WatchEvent: Added, Object: raw(`{}`)}}
	with := Run{Hook: script(b, "source /shell_lib.sh\n__main__() { :; }\nhook::run \"$@\""), Contexts: contexts}
	without := Run{Hook: script(b, `jq -r '.[].binding' "$BINDING_CONTEXT_PATH" >/dev/null`), Contexts: contexts}
	var times [2]time.Duration
	for b.Loop() {
		for i, run := range []Run{with, without} {
			started := time.Now()
			must(b, second(runner.Run(b.Context(), run)))
			times[i] += time.Since(started)
		}
	}
	b.ReportMetric(float64(times[0].Nanoseconds())/float64(b.N), "run-ns/op")
	b.ReportMetric(float64(times[0])/float64(times[1]), "library/jq")
}
