package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// journal is a log that tests can read while it is written.
type journal struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (j *journal) Write(data []byte) (int, error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.text.Write(data)
}

// records returns the records written so far, without their time.
func (j *journal) records(t testing.TB) []map[string]any {
	t.Helper()
	j.mutex.Lock()
	defer j.mutex.Unlock()
	var records []map[string]any
	for line := range bytes.Lines(j.text.Bytes()) {
		var record map[string]any
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		delete(record, "time")
		records = append(records, record)
	}
	return records
}

func (j *journal) messages(t testing.TB) []string {
	t.Helper()
	var messages []string
	for _, record := range j.records(t) {
		messages = append(messages, record["msg"].(string))
	}
	return messages
}

// newRunner makes a runner whose log can be read, and which leaves no file behind at the end of the test.
func newRunner(t testing.TB, options Options) (*Runner, *journal) {
	t.Helper()
	log := &journal{}
	options.TmpDir = filepath.Join(t.TempDir(), "tmp")
	options.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	runner, err := NewRunner(options)
	must(t, err)
	t.Cleanup(func() {
		left, err := os.ReadDir(runner.options.TmpDir)
		if err != nil || (len(left) > 0 && !options.KeepFiles) {
			t.Errorf("left in the temporary directory: %v, %v", left, err) // C24
		}
	})
	return runner, log
}

// script writes a bash hook.
func script(t testing.TB, body string) Hook {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hook.sh")
	// A process that another test starts meanwhile would have it open for a moment, too, and it could not be executed
	// (ETXTBSY).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	must(t, os.WriteFile(path, []byte("#!/usr/bin/env bash\n"+body+"\n"), 0o755))
	return Hook{File: File{Name: "001-m/hooks/hook.sh", Path: path}}
}

// until polls for something that happens in another process.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute) // nothing measures it
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestRunHandsOverFilesAndEnvironment(t *testing.T) { // C23, C24, C25, X1, X18
	runner, _ := newRunner(t, Options{})
	t.Setenv("FROM_OPERATOR", "inherited")
	hook := script(t, `
[[ $# -eq 0 ]] || exit 10
{
  echo "$PWD|$WORKING_DIR|$FROM_OPERATOR"
  cat "$BINDING_CONTEXT_PATH"; echo
  cat "$VALUES_PATH"; echo
  cat "$CONFIG_VALUES_PATH"; echo
  for out in "$CONFIG_VALUES_JSON_PATCH_PATH" "$VALUES_JSON_PATCH_PATH" "$METRICS_PATH" "$KUBERNETES_PATCH_PATH"; do
    [[ -f $out && -w $out && ! -s $out ]] && echo empty
  done
  stat -c %a "$VALUES_PATH" "$METRICS_PATH" "$(dirname "$METRICS_PATH")"
} > seen`)
	_, err := runner.Run(t.Context(), Run{
		Hook:       hook,
		WorkingDir: "/modules",
		Contexts:   []Context{{Binding: "onStartup"}},
		Values:     map[string]any{"global": map[string]any{"html": "<&>", "big": json.Number("123456789012345678901")}},
	})
	must(t, err)
	dir := filepath.Dir(hook.Path)
	seen, err := os.ReadFile(filepath.Join(dir, "seen"))
	must(t, err)
	want := dir + "|/modules|inherited\n" +
		`[{"binding":"onStartup"}]` + "\n" +
		`{"global":{"big":123456789012345678901,"html":"<&>"}}` + "\n" +
		"{}\n" + strings.Repeat("empty\n", 4) + "600\n600\n700\n"
	if string(seen) != want {
		t.Errorf("the hook saw\n%s\nwant\n%s", seen, want)
	}
}

func TestRunWithoutContextsWritesAnArray(t *testing.T) { // X18
	runner, _ := newRunner(t, Options{})
	if _, err := runner.Run(t.Context(), Run{Hook: script(t, `[[ $(<$BINDING_CONTEXT_PATH) == "[]" ]]`)}); err != nil {
		t.Error(err)
	}
}

func TestRunReadsResults(t *testing.T) { // C26
	runner, _ := newRunner(t, Options{})
	result, err := runner.Run(t.Context(), Run{Hook: script(t, `
echo '[{"op": "add", "path": "/m/a", "value": 1}] {"op": "remove", "path": "/m/b"}' > $VALUES_JSON_PATCH_PATH
echo '{"op": "replace", "path": "m.c", "value": true}' > $CONFIG_VALUES_JSON_PATCH_PATH
echo '{"name": "n", "set": 5}' > $METRICS_PATH
printf 'operation: Create\n' > $KUBERNETES_PATCH_PATH
`)})
	must(t, err)
	if len(result.ValuesPatch) != 2 || len(result.ConfigPatch) != 1 || result.ConfigPatch[0].Path != "/m/c" {
		t.Errorf("patches %+v, %+v", result.ValuesPatch, result.ConfigPatch)
	}
	if want := []Metric{{Name: "n", Action: ActionSet, Value: 5}}; !reflect.DeepEqual(result.Metrics, want) {
		t.Errorf("metrics %+v", result.Metrics)
	}
	if got := string(result.ObjectPatches); got != "operation: Create\n" {
		t.Errorf("object patches %q", got)
	}
	if len(result.Warnings) != 1 || !strings.HasPrefix(result.Warnings[0], "CONFIG_VALUES_JSON_PATCH_PATH: ") { // D19
		t.Errorf("warnings %q", result.Warnings)
	}
	if result.Usage.Wall <= 0 || result.Usage.User+result.Usage.System <= 0 { // C30
		t.Errorf("usage %+v", result.Usage)
	}
}

func TestRunRefusesResults(t *testing.T) {
	for situation, test := range map[string]struct{ script, want string }{
		"a patch that is none": {
			`echo 'nonsense' > $VALUES_JSON_PATCH_PATH`, "VALUES_JSON_PATCH_PATH: "},
		"a metric that is wrong": {
			`echo '{"name": "n"}' > $METRICS_PATH`, "METRICS_PATH: metric 1: "},
		"a file that is too large": {
			`head -c 2000 /dev/zero > $KUBERNETES_PATCH_PATH`, "KUBERNETES_PATCH_PATH: the hook wrote more than 1000 bytes"},
		"a directory": {
			`rm $METRICS_PATH; mkdir $METRICS_PATH`, "METRICS_PATH: the hook has put something there that is not a regular file"},
		"a pipe, which would block a reader without end": {
			`rm $METRICS_PATH; mkfifo $METRICS_PATH`, "METRICS_PATH: the hook has put something there that is not a regular file"},
		"a result is a link": {
			`ln -sf /etc/passwd $METRICS_PATH`, "METRICS_PATH: the hook has put something there that is not a regular file"},
		"a patch is a link": {
			`ln -sf /etc/passwd $VALUES_JSON_PATCH_PATH`, "VALUES_JSON_PATCH_PATH: the hook has put something there that is not a regular file"},
	} {
		t.Run(situation, func(t *testing.T) {
			runner, _ := newRunner(t, Options{MaxResultBytes: 1000})
			result, err := runner.Run(t.Context(), Run{Hook: script(t, test.script)})
			if err == nil || !strings.HasPrefix(err.Error(), "hook 001-m/hooks/hook.sh: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
			if result.ValuesPatch != nil || result.Metrics != nil || result.ObjectPatches != nil {
				t.Errorf("a refused run gave %+v", result)
			}
			if result.Usage.Wall <= 0 {
				t.Error("usage of the refused run is lost")
			}
		})
	}
	t.Run("all files at once", func(t *testing.T) {
		runner, _ := newRunner(t, Options{})
		_, err := runner.Run(t.Context(), Run{Hook: script(t, `for f in $VALUES_JSON_PATCH_PATH $CONFIG_VALUES_JSON_PATCH_PATH $METRICS_PATH; do echo x > $f; done`)})
		wantError(t, err, "VALUES_JSON_PATCH_PATH", "CONFIG_VALUES_JSON_PATCH_PATH", "METRICS_PATH")
	})
}

func TestRunAcceptsRemovedAndReplacedResults(t *testing.T) {
	runner, _ := newRunner(t, Options{})
	result, err := runner.Run(t.Context(), Run{Hook: script(t, `
rm $VALUES_JSON_PATCH_PATH $CONFIG_VALUES_JSON_PATCH_PATH $KUBERNETES_PATCH_PATH
echo '{"name": "n", "set": 5}' > new && mv new $METRICS_PATH`)})
	if err != nil || result.ValuesPatch != nil || len(result.Metrics) != 1 {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestRunThatFails(t *testing.T) { // C26, C27
	runner, _ := newRunner(t, Options{})
	result, err := runner.Run(t.Context(), Run{Hook: script(t, `
echo '{"op": "add", "path": "/m/a", "value": 1}' > $VALUES_JSON_PATCH_PATH
echo nonsense > $METRICS_PATH
for i in {1..30}; do echo "line $i" >&2; done
exit 7`)})
	var exit *ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("error %v is no ExitError", err)
	}
	if exit.Hook != "001-m/hooks/hook.sh" || exit.Code != 7 || exit.Signal != 0 {
		t.Errorf("got %+v", exit)
	}
	if lines := strings.Split(exit.Stderr, "\n"); len(lines) != 20 || lines[0] != "line 11" || lines[19] != "line 30" {
		t.Errorf("stderr %q", exit.Stderr)
	}
	wantError(t, err, "hook 001-m/hooks/hook.sh: exit code 7, stderr ends with:\nline 11\n")
	if result.ValuesPatch != nil {
		t.Error("the patch of a failed run is not ignored")
	}
}

func TestRunThatFailsSays(t *testing.T) {
	for situation, test := range map[string]struct {
		script string
		want   ExitError
		text   string
	}{
		"nothing":      {`exit 1`, ExitError{Code: 1}, "exit code 1, nothing on stderr"},
		"one line":     {`echo broken >&2; exit 1`, ExitError{Code: 1, Stderr: "broken"}, "exit code 1: broken"},
		"a signal":     {`kill -SEGV $$`, ExitError{Code: -1, Signal: syscall.SIGSEGV}, "ended by signal 11 (segmentation fault)"},
		"no line feed": {`printf half >&2; exit 1`, ExitError{Code: 1, Stderr: "half"}, "exit code 1: half"},
		"bytes that are no text": {
			`printf 'a\xff\x1b[31m\r\n' >&2; exit 1`, ExitError{Code: 1, Stderr: `a\xff\x1b[31m`}, `exit code 1: a\xff\x1b[31m`},
	} {
		t.Run(situation, func(t *testing.T) {
			runner, _ := newRunner(t, Options{})
			_, err := runner.Run(t.Context(), Run{Hook: script(t, test.script)})
			var exit *ExitError
			if !errors.As(err, &exit) {
				t.Fatalf("error %v is no ExitError", err)
			}
			test.want.Hook = exit.Hook
			if *exit != test.want || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %+v: %v", exit, err)
			}
		})
	}
}

func TestRunMeasuresMemory(t *testing.T) { // C30
	runner, _ := newRunner(t, Options{})
	small, err := runner.Run(t.Context(), Run{Hook: script(t, `:`)})
	must(t, err)
	if got := small.Usage.MaxRSS; got != 0 {
		t.Errorf("a hook that does nothing seems to have used %d bytes, which the kernel does not know", got)
	}
	var self syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &self))
	much := int64(self.Maxrss)*rssUnit + 300_000_000 // the kernel knows only what is above the peak of this process
	large, err := runner.Run(t.Context(), Run{Hook: script(t, fmt.Sprintf("head -c %d /dev/zero | tail -c %[1]d >/dev/null", much))})
	must(t, err)
	if large.Usage.MaxRSS < much || large.Usage.MaxRSS > 2*much {
		t.Errorf("a hook that held %d bytes seems to have used %d", much, large.Usage.MaxRSS)
	}
}

func TestRunKeepsFiles(t *testing.T) { // C24
	runner, log := newRunner(t, Options{KeepFiles: true})
	must(t, second(runner.Run(t.Context(), Run{Hook: script(t, `echo '{"name": "n", "set": 5}' > $METRICS_PATH`)})))
	records := log.records(t)
	path, _ := records[0]["path"].(string)
	if records[0]["msg"] != "files of the run are kept" || !exists(filepath.Join(path, "metrics.json")) || !exists(filepath.Join(path, "values.json")) {
		t.Errorf("log %v", records)
	}
	if !strings.Contains(path, "run-001-m-hooks-hook.sh-") {
		t.Errorf("the path %s does not tell whose run it was", path)
	}
}

func TestRunsAtTheSameTime(t *testing.T) { // C24
	runner, _ := newRunner(t, Options{})
	hook := script(t, `cat $VALUES_PATH | sed 's/n/name": "n", "set/' > $METRICS_PATH`)
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			result, err := runner.Run(t.Context(), Run{Hook: hook, Values: map[string]any{"n": int64(i)}})
			if err != nil || len(result.Metrics) != 1 || result.Metrics[0].Value != float64(i) {
				t.Errorf("run %d: %+v, %v", i, result.Metrics, err)
			}
		})
	}
	group.Wait()
}

func TestNewRunner(t *testing.T) { // B3: the directory for temporary files
	t.Run("makes the directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "a", "b")
		if _, err := NewRunner(Options{TmpDir: dir}); err != nil || !exists(dir) {
			t.Errorf("error %v", err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("needs a directory", func(t *testing.T) {
		file := filepath.Join(tree(t, "file"), "file")
		for _, dir := range []string{"", file, filepath.Join(file, "below")} {
			if _, err := NewRunner(Options{TmpDir: dir}); err == nil {
				t.Errorf("%q is accepted", dir)
			}
		}
	})
	t.Run("a relative directory", func(t *testing.T) {
		t.Chdir(t.TempDir())
		runner, err := NewRunner(Options{TmpDir: "tmp"})
		must(t, err)
		if _, err := runner.Run(t.Context(), Run{Hook: script(t, `[[ -s $VALUES_PATH ]]`)}); err != nil {
			t.Error(err)
		}
	})
}

func TestRunnerWithoutItsDirectory(t *testing.T) {
	runner, err := NewRunner(Options{TmpDir: filepath.Join(t.TempDir(), "tmp")})
	must(t, err)
	must(t, os.RemoveAll(runner.options.TmpDir))
	hook := script(t, `:`)
	if _, err := runner.Run(t.Context(), Run{Hook: hook}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), runner.options.TmpDir) {
		t.Errorf("error %v does not say what is missing", err)
	}
	if _, err := runner.Enabled(t.Context(), EnabledScript{Module: "m", Path: hook.Path}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestRunThatCannotBeWritten(t *testing.T) {
	runner, _ := newRunner(t, Options{})
	hook := script(t, `touch started`)
	for variable, run := range map[string]Run{
		"VALUES_PATH":          {Hook: hook, Values: map[string]any{"a": make(chan int)}},
		"CONFIG_VALUES_PATH":   {Hook: hook, ConfigValues: make(chan int)},
		"BINDING_CONTEXT_PATH": {Hook: hook, Contexts: []Context{{Type: TypeEvent, Object: raw(`{`)}}},
	} {
		t.Run(variable, func(t *testing.T) {
			wantError(t, second(runner.Run(t.Context(), run)), variable+": ")
		})
	}
	if exists(filepath.Join(filepath.Dir(hook.Path), "started")) {
		t.Error("the hook was started all the same")
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second returns the error of a call whose result is not needed.
func second[V any](_ V, err error) error { return err }

// wantError expects an error that tells of everything.
func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not tell of %q", err, part)
		}
	}
}

// left lists what lies in a directory for temporary files.
func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// An operator that was killed leaves the directories of its runs behind, with values in them.
func TestNewRunnerRemovesWhatAKilledOperatorLeft(t *testing.T) {
	for situation, test := range map[string]struct {
		keep, used bool
		want       int
	}{
		"the directory is not in use":             {false, false, 1},
		"files are kept":                          {true, false, 3},
		"another operator runs on this directory": {false, true, 3},
	} {
		t.Run(situation, func(t *testing.T) {
			dir := t.TempDir()
			var other *Runner
			if test.used {
				var err error
				other, err = NewRunner(Options{TmpDir: dir})
				must(t, err)
			}
			for _, name := range []string{"run-a-1/values.json", "run-b-2/values.json", "mine/values.json"} {
				write(t, filepath.Join(dir, name), "", 0o600)
			}
			must(t, second(NewRunner(Options{TmpDir: dir, KeepFiles: test.keep})))
			if names := left(t, dir); len(names) != test.want {
				t.Errorf("left: %q", names)
			}
			if other != nil && other.inUse.Close() != nil {
				t.Error("the other operator has lost its mark")
			}
		})
	}
}

func TestInherited(t *testing.T) { // C23
	want := []string{"PATH=a", "HOME=b", "OTEL_SERVICE_NAME=c", "HEADERS=d"}
	environment := append(slices.Clone(want), "OTEL_EXPORTER_OTLP_HEADERS=token", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=token")
	if got := inherited(environment); !slices.Equal(got, want) {
		t.Errorf("hooks inherit %q, want %q", got, want)
	}
	if inherited(nil) == nil {
		t.Error("nothing to inherit is nil, which means everything")
	}
}

func TestRunInherits(t *testing.T) { // C23
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "secret")
	runner, _ := newRunner(t, Options{Env: []string{"ADDED=1"}})
	hook := script(t, `[ -z "${OTEL_EXPORTER_OTLP_HEADERS+x}" ] && [ -n "$PATH" ] && [ "$ADDED" = 1 ] && [ -n "$VALUES_PATH" ] && [ "$PWD" = "$(pwd -P)" ]
code=$?; [ "${1:-}" = --config ] && echo 'onStartup: 1'; [ -z "${MODULE_ENABLED_RESULT:-}" ] || echo true > "$MODULE_ENABLED_RESULT"; exit $code`)
	if _, err := runner.Run(t.Context(), Run{Hook: hook}); err != nil {
		t.Error(err)
	}
	if _, err := runner.Enabled(t.Context(), EnabledScript{Module: "m", Path: hook.Path}); err != nil {
		t.Errorf("the enabled script: %v", err)
	}
	asked := script(t, `[ -z "${OTEL_EXPORTER_OTLP_HEADERS+x}" ] || exit 1; echo '{configVersion: v1, onStartup: 1}'`)
	if _, err := runner.Configure(t.Context(), asked.File, "", Module); err != nil {
		t.Errorf("--config: %v", err)
	}
}

// C24: files with values lie where no other user can replace them.
func TestTmpDirMustBeOurs(t *testing.T) {
	dir := t.TempDir()
	mode := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.Mkdir(path, 0o700))
		must(t, os.Chmod(path, mode))
		return path
	}
	link := func(target, name string) string {
		path := filepath.Join(dir, name)
		must(t, os.Symlink(target, path))
		return path
	}
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	open := mode("open", 0o777)
	for path, problem := range map[string]string{
		filepath.Join(dir, "fresh", "one"):        "",
		mode("private", 0o700):                    "",
		mode("readable", 0o755):                   "",
		mode("sticky", 0o777|os.ModeSticky):       "",
		filepath.Join(open, "own"):                "",
		link(filepath.Join(dir, "private"), "to"): "",
		open:                  "others may write to it (mode 0777)",
		mode("group", 0o770):  "others may write to it (mode 0770)",
		link(open, "to-open"): "others may write to it (mode 0777)",
		link(file, "to-file"): "file exists",
	} {
		_, err := NewRunner(Options{TmpDir: path})
		if problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem) && !strings.Contains(err.Error(), "not a directory")) {
			t.Errorf("%s: %v, want %q", path, err, problem)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to somebody else")
	}
	foreign := mode("foreign", 0o1777)
	must(t, os.Chown(foreign, 12345, -1))
	planted := link(filepath.Join(dir, "private"), "planted")
	must(t, os.Lchown(planted, 12345, -1))
	for _, path := range []string{foreign, planted} {
		wantError(t, second(NewRunner(Options{TmpDir: path})), "it belongs to user 12345")
	}
}

// Hooks are killed before the operator when memory runs out, and so is what they start.
func TestHooksAreOfferedToTheOOMKiller(t *testing.T) {
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	runner, _ := newRunner(t, Options{})
	hook := script(t, `until [ "$(cat /proc/$$/oom_score_adj)" = 1000 ]; do sleep 0.01; done; [ "$(bash -c 'cat /proc/$$/oom_score_adj')" = 1000 ]`)
	if _, err := runner.Run(t.Context(), Run{Hook: hook}); err != nil {
		t.Error(err)
	}
	if now, err := os.ReadFile("/proc/self/oom_score_adj"); err != nil || !bytes.Equal(now, own) {
		t.Errorf("the operator itself: %q, it was %q; %v", now, own, err)
	}
}
