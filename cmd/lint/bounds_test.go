package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"addon-operator/cmd/lint"
)

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
