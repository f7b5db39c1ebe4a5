package scenario_test

import (
	"context"
	"os"
	"path/filepath"
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
