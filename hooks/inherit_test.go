package hooks

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
		if _, err := NewRunner(Options{TmpDir: path}); err == nil || !strings.Contains(err.Error(), "it belongs to user 12345") {
			t.Errorf("%s: %v, want it refused", path, err)
		}
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
