package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// allPassed wants scenarios with these names, which all passed.
func allPassed(t *testing.T, results []Result, names ...string) {
	t.Helper()
	var got []string
	for _, r := range results {
		if got = append(got, r.Scenario.Name()); !r.Passed() {
			t.Error(r)
		}
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("played %v, want %v", got, names)
	}
}

// The tests of a chart are templates, not scenarios; only tests/ of the module itself is left
// out of what the operator gets.
func TestDirectoriesCalledTests(t *testing.T) {
	allPassed(t, module(t, Options{}, map[string]string{
		"010-a/templates/tests/test-connection.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: t, annotations: {helm.sh/hook: test}}",
		"010-a/templates/tests/_word.tpl":            `{{ define "word" }}here{{ end }}`,
		"010-a/templates/a.yaml":                     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {word: {{ include \"word\" . }}}",
		"010-a/charts/b/Chart.yaml":                  "apiVersion: v2\nname: b\nversion: 1.0.0",
		"010-a/charts/b/tests/b.yaml":                "of: another chart",
		"010-a/tests/word.yaml":                      "description: the chart is whole\nexpect: {objects: [{kind: ConfigMap, metadata: {name: a}, data: {word: here}}]}",
	}), "010-a/word")
}

// When modules cannot be discovered nothing runs; the reason is given, not only what is missing.
func TestDiscoveryThatFailsIsTold(t *testing.T) {
	const enabled = "#!/bin/sh\necho it has no license >&2\nexit 1\n"
	files := map[string]string{"010-a/enabled": enabled, "010-a/tests/a.yaml": "description: a\nexpect: {modules: {a: disabled}}"}
	results := module(t, Options{}, files)
	if text := results[0].String(); !strings.Contains(text, "expect.failing: converge fails: ") || !strings.Contains(text, "it has no license") {
		t.Errorf("it says\n%s", text)
	}
	files["010-a/tests/a.yaml"] = "description: a\nexpect: {failing: {converge: no license}}"
	allPassed(t, module(t, Options{}, files), "010-a/a")
}

// Links are followed, as when modules are loaded; what one that leads upwards shows again is not found twice.
func TestScenariosOfLinkedModules(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{"elsewhere/a/tests/a.yaml": "description: a", "elsewhere/one.yaml": "description: b", "modules/020-b/tests/none.yaml": "description: c"}
	for name, text := range files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	for link, target := range map[string]string{"modules/010-a": "../elsewhere/a", "modules/020-b/tests/b.yaml": "../../../elsewhere/one.yaml", "modules/020-b/up": "../..", "modules/020-b/self": ".", "modules/030-none": "nowhere", ".link": "modules"} {
		must(t, os.Symlink(target, filepath.Join(root, link)))
	}
	for _, dir := range []string{"modules", ".link"} {
		found, err := Find(filepath.Join(root, dir))
		must(t, err)
		var names []string
		for _, s := range found {
			names = append(names, s.Name())
		}
		if got := strings.Join(names, " "); got != "010-a/a 020-b/b 020-b/none" || filepath.Dir(filepath.Dir(filepath.Dir(found[0].Path()))) != filepath.Join(root, dir) {
			t.Errorf("%s: found %s", dir, got)
		}
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
