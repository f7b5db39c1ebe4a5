package scenario_test

import (
	"context"
	"fmt"
	"log"
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

// A module with a chart and a scenario, played without a cluster.
func Example() {
	dir, err := os.MkdirTemp("", "modules-")
	if err != nil {
		log.Print(err)
		return
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{
		"010-hello/values.yaml":       "hello: {greeting: hello}\n",
		"010-hello/templates/cm.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: hello}, data: {text: {{ .Values.hello.greeting }}}}\n",
		"010-hello/tests/text.yaml": `
description: The chart shows the greeting
steps:
- configMap: {hello: {greeting: good morning}}
expect:
  objects: [{kind: ConfigMap, metadata: {name: hello}, data: {text: good evening}}]
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			log.Print(err)
			return
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			log.Print(err)
			return
		}
	}
	found, err := scenario.Find(dir)
	if err != nil {
		log.Print(err)
		return
	}
	for _, result := range scenario.Play(context.Background(), found, scenario.Options{}, nil) {
		fmt.Println(result.Scenario.Name(), result.Passed())
		for _, problem := range result.Problems {
			fmt.Println(problem)
		}
	}
	// Output:
	// 010-hello/text false
	// expect.objects: ConfigMap hello.data.text must be "good evening", is "good morning"
}
