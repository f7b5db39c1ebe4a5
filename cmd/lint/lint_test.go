package lint_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/cmd/lint"
	"addon-operator/testkit/golden"
)

// tree writes the files of an archive to a directory. Scripts are executable. Lines of the comment
// say otherwise: "mode 0644 FILE", "crlf FILE".
func tree(t testing.TB, archive *txtar.Archive) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"modules", "global-hooks"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	says := func(what, name string) bool {
		return strings.Contains("\n"+string(archive.Comment), "\n"+what+" "+name+"\n")
	}
	for _, f := range archive.Files {
		if f.Name == "want" {
			continue
		}
		mode, data := os.FileMode(0o644), f.Data
		if bytes.HasPrefix(data, []byte("#!")) && !says("mode 0644", f.Name) || says("mode 0755", f.Name) {
			mode = 0o755
		}
		if says("crlf", f.Name) {
			data = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
		}
		path := filepath.Join(dir, f.Name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, data, mode))
	}
	return dir
}

// options are those of a test for a directory with modules and global-hooks.
func options(t testing.TB, dir string) lint.Options {
	t.Helper()
	return lint.Options{
		Dirs:  addons.Dirs{Modules: []string{filepath.Join(dir, "modules")}, Global: filepath.Join(dir, "global-hooks"), UnnumberedOrder: 1},
		Tests: true, HookLimit: time.Minute,
	}
}

// Each mistake has a file of its own: a tree, and the findings.
func TestMistakes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			must(t, err)
			o := options(t, tree(t, archive))
			if bytes.Contains(archive.Comment, []byte("hangs")) {
				o.HookLimit, o.StepTimeout = 3*time.Second, 5*time.Second // more than what does not hang takes on a busy machine
			}
			found, _, err := lint.Check(t.Context(), o)
			must(t, err)
			var got strings.Builder
			for _, f := range found {
				got.WriteString(f.String())
			}
			if got.Len() == 0 {
				t.Error("the mistake is silent")
			}
			run := regexp.MustCompile(`/run/\d+`) // how many there were before depends on the machine
			golden.Part(t, file, archive, "want", run.ReplaceAllString(got.String(), "/run/N"))
		})
	}
}

// Without a directory, and without the options of an operator, the current one is looked at.
func TestCurrentDirectory(t *testing.T) {
	t.Chdir(tree(t, txtar.Parse([]byte("-- modules/010-web/templates/a.yaml --\napiVersion: v1\nkind: ConfigMpa\nmetadata: {name: a}\n"))))
	root, c := cli.Root("v1", func(string) (string, bool) { return "", false })
	must(t, c.Read())
	var out bytes.Buffer
	root.AddCommand(lint.Command(c))
	root.SetOut(&out)
	root.SetArgs([]string{"lint"})
	if err := root.Execute(); err == nil || !strings.Contains(out.String(), "010-web/templates/a.yaml:2:1: error: ConfigMpa a") {
		t.Errorf("%v, %s", err, &out)
	}
}

// checked are the findings in a tree of files, in the order of their places.
func checked(t testing.TB, dir string, change func(*lint.Options)) []lint.Finding {
	t.Helper()
	o := options(t, dir)
	change(&o)
	found, _, err := lint.Check(t.Context(), o)
	must(t, err)
	return found
}

// One finding is expected to have the texts.
func says(t *testing.T, found []lint.Finding, texts ...string) {
	t.Helper()
	for _, text := range texts {
		seen := false
		for _, f := range found {
			seen = seen || strings.Contains(f.String(), text)
		}
		if !seen {
			t.Errorf("no finding says %q: %v", text, found)
		}
	}
}

// A hook that hangs is killed with all that it has started.
func TestHangingHookIsKilledWithItsGroup(t *testing.T) {
	t.Parallel()
	dir := tree(t, &txtar.Archive{Files: []txtar.File{
		{Name: "modules/010-web/hooks/slow.sh", Data: []byte("#!/bin/bash\ntrap '' TERM\nsleep 1000 &\necho $! >\"$(dirname \"$0\")/../child\"\nwait\nwait\n")},
		{Name: "modules/020-db/enabled", Data: []byte("#!/bin/bash\nexec sleep 1000\n")},
	}})
	found := checked(t, dir, func(o *lint.Options) { o.HookLimit = 3 * time.Second })
	says(t, found, "010-web/hooks/slow.sh: error: it did not answer --config within 3s", "020-db/enabled: error: it did not answer within 3s")
	text, err := os.ReadFile(filepath.Join(dir, "modules/010-web/child"))
	must(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); err == nil && !strings.Contains(string(state), ") Z ") && syscall.Kill(child, 0) == nil {
		t.Errorf("process %d, which the hook had started, goes on: %s", child, state)
	}
}

// Output without end is neither kept nor printed.
func TestEndlessOutputIsBounded(t *testing.T) {
	t.Parallel()
	dir := tree(t, &txtar.Archive{Files: []txtar.File{
		{Name: "modules/010-web/hooks/loud.sh", Data: []byte("#!/bin/bash\nhead -c 3000000 /dev/zero | tr '\\0' 'x'\n")},
		{Name: "modules/010-web/hooks/shouts.sh", Data: []byte("#!/bin/bash\nhead -c 3000000 /dev/zero | tr '\\0' 'x' >&2\nexit 1\n")},
		{Name: "modules/020-db/enabled", Data: []byte("#!/bin/bash\nhead -c 3000000 /dev/zero | tr '\\0' 'x' >\"$MODULE_ENABLED_RESULT\"\n")},
	}})
	found := checked(t, dir, func(*lint.Options) {})
	says(t, found, "010-web/hooks/loud.sh: error", "010-web/hooks/shouts.sh: error", "020-db/enabled:2:44: error")
	for _, f := range found {
		if len(f.String()) > 10_000 {
			t.Errorf("%s: a finding of %d bytes", f.File, len(f.String()))
		}
	}
}

// Files that are large, no files at all, or full of mistakes.
func TestHugeAndOddFiles(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	many.WriteString("properties:\n")
	for i := range 3000 {
		fmt.Fprintf(&many, "  p%d: {typ: text, type: objekt}\n", i)
	}
	dir := tree(t, &txtar.Archive{Files: []txtar.File{
		{Name: "modules/010-web/values.yaml", Data: []byte("web: " + strings.Repeat("x", 5<<20) + "\n")},
		{Name: "modules/020-db/openapi/values.yaml", Data: []byte(many.String())},
		{Name: "modules/030-deep/values.yaml", Data: []byte("deep: " + strings.Repeat("{a: ", 5000) + strings.Repeat("}", 5000) + "\n")},
		{Name: "modules/040-line/templates/a.yaml", Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndta: {a: " + strings.Repeat("x", 100_000) + "}\n")},
	}})
	must(t, os.MkdirAll(filepath.Join(dir, "modules/050-pipe/openapi"), 0o755))
	for _, name := range []string{"values.yaml", "openapi/config-values.yaml", "module.yaml"} {
		must(t, syscall.Mkfifo(filepath.Join(dir, "modules/050-pipe", name), 0o644))
	}
	deep := filepath.Join(dir, "modules/060-tree", strings.Repeat("a/", 300))
	must(t, os.MkdirAll(deep, 0o755))
	found := checked(t, dir, func(*lint.Options) {})
	says(t, found, "010-web/values.yaml", "030-deep/values.yaml", "050-pipe/values.yaml", "040-line/templates/a.yaml:4:1")
	if len(found) > 1001 {
		t.Errorf("%d findings", len(found))
	}
	for _, f := range found {
		if len(f.String()) > 10_000 {
			t.Errorf("%s: a finding of %d bytes", f.File, len(f.String()))
		}
	}
}

// Links may lead out of the directories, and upwards. Nothing is shown of what lies outside.
func TestLinksThatLeave(t *testing.T) {
	t.Parallel()
	dir := tree(t, &txtar.Archive{Files: []txtar.File{
		{Name: "outside.yaml", Data: []byte("web: [hunter2\n")},
		{Name: "modules/010-web/hooks/ok.sh", Data: []byte("#!/bin/bash\necho 'onStartup: 1'\n")},
	}})
	for link, to := range map[string]string{"values.yaml": "../../outside.yaml", "up": "..", "hooks/up": "../.."} {
		must(t, os.Symlink(to, filepath.Join(dir, "modules/010-web", link)))
	}
	found := checked(t, dir, func(*lint.Options) {})
	says(t, found, "010-web/values.yaml:1:")
	for _, f := range found {
		if strings.Contains(f.String(), "hunter2") {
			t.Errorf("a file outside is shown: %s", f)
		}
	}
}

// The examples, what init writes, and the charts of this repository have no findings.
func TestOwnModulesPass(t *testing.T) {
	const repository = "../.."
	tools, err := filepath.Abs(filepath.Join(repository, "bin"))
	must(t, err)
	t.Setenv("PATH", tools+":"+os.Getenv("PATH")) // jq, which the examples call
	o := options(t, filepath.Join(repository, "examples"))
	found, summary, err := lint.Check(t.Context(), o)
	if err != nil || len(found) > 0 || !strings.HasPrefix(summary, "No findings in 4 modules and the global hooks; ") || !strings.HasSuffix(summary, " tests passed.") {
		t.Errorf("examples: %v, %s, %v", found, summary, err)
	}
	dir := tree(t, &txtar.Archive{})
	for _, chart := range []string{"deploy/chart"} {
		must(t, os.CopyFS(filepath.Join(dir, "modules/010-own/chart"), os.DirFS(filepath.Join(repository, chart))))
	}
	if found := checked(t, dir, func(*lint.Options) {}); len(found) > 0 {
		t.Error(found)
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
