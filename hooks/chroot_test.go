package hooks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

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
	tests := map[string]struct {
		options Options
		want    string
	}{
		"with the temporary files elsewhere": {Options{TmpDir: t.TempDir(), Chroot: root}, "is not below it"},
		"that is a link":                     {Options{TmpDir: filepath.Join(link, "tmp"), Chroot: link}, "is a symbolic link; use " + root},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			if _, err := NewRunner(test.options); err == nil || !strings.Contains(err.Error(), test.want) && os.Geteuid() == 0 {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}

func TestInside(t *testing.T) {
	tests := map[string]struct{ root, path, want string }{
		"no other root":   {"", "/a/b", "/a/b"},
		"below it":        {"/a", "/a/b/c", "/b/c"},
		"the root itself": {"/a", "/a", "/"},
		"a like name":     {"/a", "/ab", "/ab"},
		"elsewhere":       {"/a", "/b", "/b"},
		"dots in a name":  {"/a", "/a/..b", "/..b"},
		"the usual root":  {"/", "/a", "/a"},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			if got := inside(test.root, test.path); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
