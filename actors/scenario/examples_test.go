package scenario_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"addon-operator/actors/scenario"
)

// useTools makes hooks find kubectl and jq of the repository, as 'make devcluster' builds them.
func useTools(t *testing.T) {
	t.Helper()
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func played(t *testing.T, paths ...string) []scenario.Result {
	t.Helper()
	found, err := scenario.Find(paths...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	return scenario.Play(ctx, found, scenario.Options{}, nil)
}

// Every module of examples/ has scenarios, and they pass.
func TestExamples(t *testing.T) {
	useTools(t)
	tested := map[string]bool{}
	for _, r := range played(t, "../../examples") {
		tested[filepath.Dir(filepath.Dir(r.Scenario.Path()))] = true
		if !r.Passed() {
			t.Errorf("%s\nlog:\n%s", r, r.Log)
		}
	}
	entries, err := os.ReadDir("../../examples/modules")
	if err != nil || len(entries) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	dirs := []string{"../../examples/global-hooks"}
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, "../../examples/modules/"+e.Name())
		}
	}
	for _, dir := range dirs {
		path, err := filepath.Abs(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !tested[path] {
			t.Errorf("%s has no tests/*.yaml", dir)
		}
	}
}

// A hook, script, chart or schema of the examples that is broken in one line is found
// by the scenario of its module that is about that.
func TestBrokenExamplesFail(t *testing.T) {
	if raced {
		t.Skip("plays the engine of TestExamples sixteen times more")
	}
	useTools(t)
	breaks := map[string]struct{ finds, file, line, broken string }{
		"copies only new Secrets":          {"copies", "modules/010-secret-copier/hooks/copy-secrets.sh", `replace: ($wanted - $seen.copies`, `replace: ($wanted - $wanted`},
		"forgets to delete copies":         {"copies", "modules/010-secret-copier/hooks/copy-secrets.sh", `"delete --ignore-not-found" create replace`, `create replace`},
		"takes Secrets of others":          {"foreign", "modules/010-secret-copier/hooks/copy-secrets.sh", `>/dev/null || failed=1`, `>/dev/null || true`},
		"copies also without the label":    {"copies", "modules/010-secret-copier/hooks/copy-secrets.sh", `labelSelector: {matchLabels: {examples/copy-to-all-namespaces: "true"}}`, ``},
		"leaves copies behind":             {"disabled", "modules/010-secret-copier/hooks/copy-secrets.sh", `afterDeleteHelm: 10`, `afterHelm: 10`},
		"ignores the retention":            {"storage", "modules/020-prometheus/templates/deployment.yaml", `{{ .Values.prometheus.retention }}`, `15d`},
		"accepts every retention":          {"refused", "modules/020-prometheus/openapi/config-values.yaml", `pattern: ^[0-9]+(h|d|w|y)$`, ``},
		"disk of a fixed size":             {"disk", "modules/020-prometheus/templates/pvc.yaml", `{{ .Values.prometheus.storage }}`, `10Gi`},
		"stores the password as value":     {"password", "modules/030-grafana/hooks/admin-password.sh", `>"$CONFIG_VALUES_JSON_PATCH_PATH"`, `>"$VALUES_JSON_PATCH_PATH"`},
		"makes a password each time":       {"password", "modules/030-grafana/hooks/admin-password.sh", `'.grafana.adminPassword'`, `'.grafana.password'`},
		"is always enabled":                {"enabled", "modules/030-grafana/enabled", `echo false >`, `echo true >`},
		"succeeds without credentials":     {"backup", "modules/040-backup/hooks/take-backup.sh", `  exit 1`, `  exit 0`},
		"saves nothing":                    {"backup", "modules/040-backup/hooks/take-backup.sh", `(.data // {} | tojson)`, `"{}"`},
		"reports no version":               {"discovery", "global-hooks/hooks/discover-cluster.sh", `.serverVersion.gitVersion`, `.clientVersion.gitVersion`},
		"takes the oldest default":         {"discovery", "global-hooks/hooks/discover-cluster.sh", `last.name`, `first.name`},
		"sees no change of StorageClasses": {"discovery", "global-hooks/hooks/discover-cluster.sh", `includeSnapshotsFrom: [storage-classes]`, `executeHookOnEvent: []`},
	}
	broken := map[string]bool{}
	for name, c := range breaks {
		broken[c.file] = true
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.CopyFS(root, os.DirFS("../../examples")); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(root, c.file)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(string(source), c.line, c.broken, 1)
			if text == string(source) {
				t.Fatalf("%s has no line with %s any more", c.file, c.line)
			}
			if err := os.WriteFile(path, []byte(text), info.Mode()); err != nil {
				t.Fatal(err)
			}
			unit := strings.Join(strings.Split(c.file, "/")[:unitDepth(c.file)], "/")
			for _, r := range played(t, filepath.Join(root, unit, "tests", c.finds+".yaml")) {
				if !r.Passed() {
					return
				}
			}
			t.Errorf("the scenario %s passes", c.finds)
		})
	}
	for _, program := range programs(t) {
		if !broken[program] {
			t.Errorf("%s is not broken by this test", program)
		}
	}
}

// programs are the hooks and enabled scripts of the examples.
func programs(t *testing.T) (list []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("../../examples"), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		isOurs := strings.Contains(path, "hooks/") || entry.Name() == "enabled"
		if err == nil && isOurs && info.Mode()&0o100 != 0 {
			list = append(list, path)
		}
		return err
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	return list
}

// unitDepth is how many parts of a path name the module, or the global hooks.
func unitDepth(file string) int {
	if strings.HasPrefix(file, "global-hooks/") {
		return 1
	}
	return 2
}
