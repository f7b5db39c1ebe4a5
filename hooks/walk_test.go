package hooks

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"addon-operator/testkit/golden"

	"golang.org/x/tools/txtar"
)

// TestWalk plays the walk of the package comment with real scripts and compares the trace in the last file of
// testdata/walk/module.txtar. -update rewrites it.
func TestWalk(t *testing.T) {
	const path = "testdata/walk/module.txtar"
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	last := len(archive.Files) - 1
	for _, file := range archive.Files[:last] {
		target := filepath.Join(root, file.Name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, file.Data, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	var trace bytes.Buffer
	walkModule(t, root, &trace)

	golden.Part(t, path, archive, archive.Files[last].Name, trace.String())
}

// walkModule finds, configures and runs the hooks below root for beforeHelm, and writes what happened.
func walkModule(t *testing.T, root string, trace *bytes.Buffer) {
	files, warnings, err := Find(filepath.Join(root, "hooks"), "001-nginx-ingress/hooks", Module)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("find: %v, %q", err, warnings)
	}
	runner, log := newRunner(t, Options{})
	var hooks []Hook
	for _, file := range files {
		found, err := runner.Configure(t.Context(), file, root, Module)
		if err != nil {
			t.Fatal(err)
		}
		hooks = append(hooks, found...)
	}
	logged := 0
	for _, hook := range ByOrder(hooks, BeforeHelm) {
		order, _ := hook.Config.Order(BeforeHelm)
		fmt.Fprintf(trace, "%s beforeHelm=%v %s\n", hook.Name, order, hook.Config.Version)
		contexts := []Context{{Binding: string(BeforeHelm), Snapshots: nodes(hook.Config.OrderSnapshots(BeforeHelm))}}
		fmt.Fprintf(trace, "  context %s\n", mustEncode(t, contexts))
		result, err := runner.Run(t.Context(), Run{Hook: hook, WorkingDir: root, Contexts: contexts})
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range log.messages(t)[logged:] {
			fmt.Fprintf(trace, "  log %s\n", message)
			logged++
		}
		for _, operation := range result.ValuesPatch {
			fmt.Fprintf(trace, "  patch %s %s\n", operation.Op, operation.Path)
		}
		for _, metric := range result.Metrics {
			fmt.Fprintf(trace, "  metric %s %s %v\n", metric.Action, metric.Name, metric.Value)
		}
	}
}

// nodes stands for the cache of objects: each binding has seen the same two nodes.
func nodes(bindings []string) map[string][]Object {
	if bindings == nil {
		return nil
	}
	snapshots := map[string][]Object{}
	for _, binding := range bindings {
		snapshots[binding] = []Object{{FilterResult: raw(`"n1"`)}, {FilterResult: raw(`"n2"`)}}
	}
	return snapshots
}
