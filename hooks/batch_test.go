package hooks

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// batchScript speaks as the module SDK does, and writes down what it is run with.
const batchScript = `#!/usr/bin/env bash
case "$1 $2" in
"hook config")
  echo '{"level":"info","msg":"a log record before the list"}'
  cat <<'END'
{"version": "v1", "has_settings_check": true, "hooks": [
  {"configVersion": "v1", "metadata": {"name": "nodes", "path": "x"}, "beforeHelm": 5, "logLevel": "debug", "allowFailure": true,
   "settings": {"executionMinInterval": 3000000000, "executionBurst": 2, "enableSchedulesOnStartup": true},
   "kubernetes": [{"name": "nodes", "apiVersion": "v1", "kind": "Node", "jqFilter": ".metadata.name", "keepFullObjectsInMemory": false,
     "executeHookOnEvent": false, "executeHookOnSynchronization": true, "queue": "slow"}],
   "schedule": [{"crontab": "* * * * *", "allowFailure": false}]},
  {"configVersion": "v1", "metadata": {"name": "nodes"}, "onStartup": 0, "kubernetes": [{"name": "pods", "kind": "Pod", "executeHookOnEvent": true}]}],
 "readiness": {"configVersion": "v1", "metadata": {"name": "readiness"}, "schedule": [{"name": "probe", "crontab": "*/15 * * * * *"}]}}
END
  ;;
"hook run" | "hook ready") echo "$*" >>"$(dirname "$0")/journal" ;;
*) exit 9 ;;
esac
`

func batchFile(t *testing.T, name, text string) File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o755))
	return File{Name: "010-dns/hooks/" + name, Path: path}
}

// One file is several hooks, each with a name of its own; the snapshots of each are one group, as
// the SDK reads them, and the probe of the module holds nothing up.
func TestBatchIsSeveralHooks(t *testing.T) {
	runner, _ := newRunner(t, Options{})
	file := batchFile(t, "batch", batchScript)
	found, err := runner.Configure(t.Context(), file, "/", Module)
	must(t, err)
	var names []string
	for _, hook := range found {
		names = append(names, hook.Name)
	}
	if want := []string{file.Name + ":nodes:0", file.Name + ":nodes:1", file.Name + ":ready"}; !slices.Equal(names, want) {
		t.Fatalf("hooks %q, want %q", names, want)
	}

	first := found[0].Config
	watch, tick := first.Kubernetes[0], first.Schedules[0]
	if order, ok := first.Order(BeforeHelm); !ok || order != 5 {
		t.Errorf("beforeHelm: %v, %v", order, ok)
	}
	if watch.Group != "main" || tick.Group != "main" || len(watch.Events) != 0 || watch.KeepFullObjects || watch.Queue != "slow" || !watch.AllowFailure || tick.AllowFailure {
		t.Errorf("bindings %+v, %+v", watch, tick)
	}
	if want := (Settings{ExecutionMinInterval: 3 * time.Second, ExecutionBurst: 2}); first.Settings != want {
		t.Errorf("settings %+v, want %+v", first.Settings, want)
	}
	if len(first.Warnings) != 1 || !strings.Contains(first.Warnings[0], "settings check") {
		t.Errorf("warnings %q", first.Warnings)
	}
	if events := found[1].Config.Kubernetes[0].Events; len(events) != 3 {
		t.Errorf("executeHookOnEvent: true is events %q, want all", events)
	}
	if probe := found[2].Config.Schedules[0]; !probe.AllowFailure || probe.Queue != "ready:"+file.Name {
		t.Errorf("readiness %+v", probe)
	}

	for _, hook := range found {
		if _, err := runner.Run(t.Context(), Run{Hook: hook, WorkingDir: "/"}); err != nil {
			t.Error(err)
		}
	}
	journal, err := os.ReadFile(filepath.Join(filepath.Dir(file.Path), "journal"))
	if want := "hook run 0\nhook run 1\nhook ready\n"; err != nil || string(journal) != want {
		t.Errorf("ran %q, %v; want %q", journal, err, want)
	}
}

// The list of the first versions of the SDK has nothing around it.
func TestBatchOfTheFirstVersions(t *testing.T) {
	runner, _ := newRunner(t, Options{})
	found, err := runner.Configure(t.Context(), batchFile(t, "batch", "#!/bin/sh\n# hook config\necho '[{\"configVersion\": \"v1\", \"onStartup\": 1}]'\n"), "/", Global)
	if err != nil || len(found) != 1 || found[0].Batch != "0" {
		t.Errorf("%+v, %v; want one hook", found, err)
	}
}

// What is wrong in a batch is named by hook; the others are found all the same.
func TestMistakesInABatch(t *testing.T) {
	runner, _ := newRunner(t, Options{})
	for situation, test := range map[string]struct {
		printed, want string
		hooks         int
	}{
		"a webhook":          {`{"version": "v1", "hooks": [{"configVersion": "v1", "onStartup": 1}, {"configVersion": "v1", "metadata": {"name": "web"}, "kubernetesValidating": [{"name": "a.b.c"}]}]}`, "batch:web:1: ", 1},
		"another version":    {`{"version": "v2", "hooks": [{"onStartup": 1}]}`, `version "v2"`, 0},
		"no list":            {`hello`, "no list of hooks", 0},
		"nothing":            {``, "no list of hooks", 0},
		"bindings by chance": {`{"version": "v1", "hooks": [{"configVersion": "v1", "kubernetes": 5}]}`, "batch:0: ", 0},
	} {
		t.Run(situation, func(t *testing.T) {
			found, err := runner.Configure(t.Context(), batchFile(t, "batch", "#!/bin/sh\n# hook config\necho '"+test.printed+"'\n"), "/", Module)
			if err == nil || !strings.Contains(err.Error(), test.want) || len(found) != test.hooks {
				t.Errorf("%d hooks, error %v; want %d and %q", len(found), err, test.hooks, test.want)
			}
		})
	}
}

// A hook is never run to find out whether it is a batch: with those arguments it would do its work.
func TestOrdinaryHooksAreNotAskedForABatch(t *testing.T) {
	for name, text := range map[string]string{
		"plain":     "#!/bin/sh\nif [ \"$1\" = --config ]; then exit 1; fi\necho hook config >>journal\n",
		"library":   "#!/bin/bash\n. /lib.sh\n__config__() { echo; }\nhook::run \"$@\"\n",
		"hook.sh":   "#!/bin/sh\n# hook config\n",
		"no-script": "hook config",
	} {
		if isBatch(batchFile(t, name, text).Path) {
			t.Errorf("%s counts as a batch", name)
		}
	}
}

// A program that has the SDK among its modules is one, whatever its name.
func TestProgramWithTheSDKIsABatch(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":     "module hooks.example.com/dns\n\ngo 1.24\n\nrequire github.com/deckhouse/module-sdk v0.1.0\n\nreplace github.com/deckhouse/module-sdk => ./sdk\n",
		"main.go":    "package main\n\nimport \"github.com/deckhouse/module-sdk/app\"\n\nfunc main() { app.Run() }\n",
		"sdk/go.mod": "module github.com/deckhouse/module-sdk\n\ngo 1.24\n",
		"sdk/app/app.go": "package app\n\nimport \"os\"\n\nfunc Run() {\n\tif len(os.Args) == 3 && os.Args[1] == \"hook\" && os.Args[2] == \"config\" {\n" +
			"\t\tos.Stdout.WriteString(`{\"version\": \"v1\", \"hooks\": [{\"configVersion\": \"v1\", \"afterHelm\": 1}]}`)\n\t\treturn\n\t}\n\tos.Exit(1)\n}\n",
	} {
		write(t, filepath.Join(dir, name), text, 0o644)
	}
	build := exec.Command("go", "build", "-o", "hooks.bin", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runner, _ := newRunner(t, Options{})
	found, err := runner.Configure(t.Context(), File{Name: "hooks.bin", Path: filepath.Join(dir, "hooks.bin")}, dir, Module)
	if err != nil || len(found) != 1 || found[0].Name != "hooks.bin:0" {
		t.Errorf("%+v, %v; want one hook", found, err)
	}
}
