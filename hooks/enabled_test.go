package hooks

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// enabledScript writes the enabled script of a module.
func enabledScript(t *testing.T, body string) EnabledScript {
	t.Helper()
	path := filepath.Join(t.TempDir(), "modules", "001-m", "enabled")
	write(t, path, "#!/usr/bin/env bash\n"+body+"\n", 0o755)
	return EnabledScript{Module: "m", Path: path, Labels: []slog.Attr{slog.String("module", "m")}}
}

func TestEnabled(t *testing.T) { // E6, X19
	for situation, test := range map[string]struct {
		script string
		want   bool
		logged string // a message that must be in the log, "" for none
	}{
		"the file says true":                          {`echo true > $MODULE_ENABLED_RESULT`, true, ""},
		"the file says false, among blanks":           {`printf '\n false \n' > $MODULE_ENABLED_RESULT`, false, ""},
		"the file wins over what is printed":          {`echo true; echo false > $MODULE_ENABLED_RESULT`, false, "true"},
		"the word is printed (seed 004)":              {`echo true`, true, "enabled script printed its answer to stdout; write it to the file in MODULE_ENABLED_RESULT"},
		"the word is printed and the file is removed": {`rm $MODULE_ENABLED_RESULT; echo false`, false, "enabled script printed its answer to stdout; write it to the file in MODULE_ENABLED_RESULT"},
		"a reason": {`echo "no nodes" > $MODULE_ENABLED_REASON; echo false > $MODULE_ENABLED_RESULT`, false, "enabled script gave a reason"},
		"values can be read, and the module directory is the current one": {
			`[[ $(<$VALUES_PATH) == '{"m":1}' && $(<$CONFIG_VALUES_PATH) == '{}' && -x ./enabled && $WORKING_DIR == "$(dirname $PWD)" && $# -eq 0 ]] && echo true > $MODULE_ENABLED_RESULT`, true, ""},
		"patches cannot be written": {
			`[[ -z $VALUES_JSON_PATCH_PATH$CONFIG_VALUES_JSON_PATCH_PATH ]] && echo true > $MODULE_ENABLED_RESULT`, true, ""},
	} {
		t.Run(situation, func(t *testing.T) {
			runner, log := newRunner(t, Options{})
			s := enabledScript(t, test.script)
			s.Values = map[string]any{"m": int64(1)}
			got, err := runner.Enabled(t.Context(), s)
			if err != nil || got.Enabled != test.want || (got.Reason == "no nodes") != (situation == "a reason") {
				t.Errorf("got %v, %v", got, err)
			}
			messages := strings.Join(log.messages(t), "\n")
			if (test.logged == "") != (messages == "") || !strings.Contains(messages, test.logged) {
				t.Errorf("log %q, want %q", messages, test.logged)
			}
			for _, record := range log.records(t) {
				if record["hook"] != "m/enabled" || record["module"] != "m" {
					t.Errorf("labels of %v", record)
				}
			}
		})
	}
}

func TestEnabledFails(t *testing.T) { // E6
	for situation, test := range map[string]struct{ script, want string }{
		"nothing is written":           {`:`, "wrote nothing to MODULE_ENABLED_RESULT; write true or false"},
		"another word":                 {`echo yes > $MODULE_ENABLED_RESULT`, `wrote "yes" to MODULE_ENABLED_RESULT; write true or false`},
		"another word is printed":      {`echo yes`, "wrote nothing to MODULE_ENABLED_RESULT"},
		"more than the word":           {`echo checking; echo true`, "wrote nothing to MODULE_ENABLED_RESULT"},
		"much is printed":              {`printf 'true%100s'`, "wrote nothing to MODULE_ENABLED_RESULT"},
		"upper case":                   {`echo True > $MODULE_ENABLED_RESULT`, `wrote "True"`},
		"the result is a directory":    {`rm $MODULE_ENABLED_RESULT; mkdir $MODULE_ENABLED_RESULT`, "not a regular file"},
		"the result is a link":         {`ln -sf /etc/passwd $MODULE_ENABLED_RESULT`, "not a regular file"},
		"the exit code, whatever else": {`echo true > $MODULE_ENABLED_RESULT; echo oops >&2; exit 4`, "exit code 4: oops"},
		"the exit code next to a word": {`echo true; exit 4`, "exit code 4"},
	} {
		t.Run(situation, func(t *testing.T) {
			runner, _ := newRunner(t, Options{})
			got, err := runner.Enabled(t.Context(), enabledScript(t, test.script))
			if err == nil || got.Enabled || !strings.Contains(err.Error(), "hook m/enabled: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, error %v, want one that says %q", got, err, test.want)
			}
			var exit *ExitError
			if errors.As(err, &exit) != strings.Contains(test.want, "exit code") {
				t.Errorf("error %v has the wrong type", err)
			}
		})
	}
}

// prober is a hook that needs nothing of the file system but what it is given.
const prober = `package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Println("configVersion: v1\nonStartup: 1")
		return
	}
	dir, _ := os.Getwd()
	_, outside := os.Stat("/proc/self")
	text := fmt.Sprintf("{\"name\": \"n\", \"set\": 1, \"labels\": {\"dir\": %q, \"root\": %q, \"alone\": \"%t\"}}", dir, os.Getenv("WORKING_DIR"), outside != nil)
	if os.WriteFile(os.Getenv("METRICS_PATH"), []byte(text), 0o600) != nil {
		os.Exit(1)
	}
}
`

// B3: ADDON_OPERATOR_SHELL_CHROOT_DIR. Hooks see nothing outside; paths are as they see them.
func TestRunInAnotherRoot(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("changing the root needs root, and the hook is compiled")
	}
	root := t.TempDir()
	dir := filepath.Join(root, "modules", "001-m", "hooks")
	must(t, os.MkdirAll(dir, 0o755))
	source := filepath.Join(t.TempDir(), "main.go")
	must(t, os.WriteFile(source, []byte(prober), 0o600))
	hook := Hook{File: File{Name: "001-m/hooks/probe", Path: filepath.Join(dir, "probe")}}
	build := exec.Command("go", "build", "-o", hook.Path, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	runner, err := NewRunner(Options{TmpDir: filepath.Join(root, "tmp"), Chroot: root})
	must(t, err)
	modules := filepath.Join(root, "modules")
	must(t, second(runner.Configure(t.Context(), hook.File, modules, Module)))
	result, err := runner.Run(t.Context(), Run{Hook: hook, WorkingDir: modules})
	must(t, err)
	if got := result.Metrics[0].Labels; got["dir"] != "/modules/001-m/hooks" || got["root"] != "/modules" || got["alone"] != "true" {
		t.Errorf("the hook saw %v", got)
	}
}

func TestNewRunnerRefusesARoot(t *testing.T) {
	root := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(root, link))
	for situation, test := range map[string]struct {
		options Options
		want    string
	}{
		"with the temporary files elsewhere": {Options{TmpDir: t.TempDir(), Chroot: root}, "is not below it"},
		"that is a link":                     {Options{TmpDir: filepath.Join(link, "tmp"), Chroot: link}, "is a symbolic link; use " + root},
	} {
		t.Run(situation, func(t *testing.T) {
			if _, err := NewRunner(test.options); err == nil || !strings.Contains(err.Error(), test.want) && os.Geteuid() == 0 {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}

func TestInside(t *testing.T) {
	for situation, test := range map[string]struct{ root, path, want string }{
		"no other root":   {"", "/a/b", "/a/b"},
		"below it":        {"/a", "/a/b/c", "/b/c"},
		"the root itself": {"/a", "/a", "/"},
		"a like name":     {"/a", "/ab", "/ab"},
		"elsewhere":       {"/a", "/b", "/b"},
		"dots in a name":  {"/a", "/a/..b", "/..b"},
		"the usual root":  {"/", "/a", "/a"},
	} {
		t.Run(situation, func(t *testing.T) {
			if got := inside(test.root, test.path); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
