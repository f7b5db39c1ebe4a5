package main

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The bash blocks of docs/testing-modules.md, word by word in an empty directory.
func TestTestingModulesIsTrue(t *testing.T) {
	text, err := os.ReadFile(repository + "docs/testing-modules.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?s)```bash\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		script.WriteString(block[1])
	}
	bin, err := filepath.Abs(repository + "bin")
	if err != nil {
		t.Fatal(err)
	}
	tools := filepath.Dir(os.Getenv(programVariable))
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script.String())
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+tools+":"+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"ok    010-hello/count-nodes: The hook counts the nodes, and the chart shows their number",
		`steps[0].expect.values: hello.nodes must be 1, is 2`,
		`steps[0].expect.objects: ConfigMap hello.data.nodes must be "1", is "2"`,
		"exit code 1",
		`kubernetes "nodes": v1 Node, queue main`,
		`"path": "/hello/nodes"`,
		"ok    010-hello/refused",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	var suite junitSuite
	data, err := os.ReadFile(filepath.Join(cmd.Dir, "results.xml"))
	if err == nil {
		err = xml.Unmarshal(data, &suite)
	}
	if err != nil || suite.Tests != 1 || suite.Failures != 0 || suite.Cases[0].Class != "010-hello" {
		t.Errorf("results.xml: %v %+v", err, suite)
	}
}

// The exit codes of the commands for authors of modules, and what they say.
func TestModuleToolsRefuse(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := commanded(nil, "init", "module", "010-a"); err != nil {
		t.Fatal(err)
	}
	hook := "modules/010-a/hooks/count-nodes.sh"
	for name, text := range map[string]string{
		"wrong.yaml": "descripton: a", "fails.yaml": "description: a\nexpect: {values: {a: {nodes: 7}}}",
		"order.sh": "#!/bin/sh\n[ \"$1\" = --config ] && echo 'onStartup: 1'\nexit 0\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a name that is none":       {[]string{"init", "module", "My_Module"}, exitUsage, "My_Module"},
		"no name":                   {[]string{"init", "module"}, exitUsage, "one name"},
		"a module that exists":      {[]string{"init", "module", "010-a"}, exitRefused, "exists"},
		"no scenarios":              {[]string{"test", "modules/010-a/hooks"}, exitRefused, "there are no scenarios"},
		"a path that is not there":  {[]string{"test", "nowhere"}, exitRefused, "nowhere"},
		"a scenario with a mistake": {[]string{"test", "wrong.yaml"}, exitRefused, "1 of 1 scenarios failed"},
		"no such scenario":          {[]string{"test", "--run", "zzz"}, exitUsage, "zzz"},
		"no expression":             {[]string{"test", "--run", "("}, exitUsage, "--run"},
		"all is well":               {[]string{"test", "modules"}, exitStopped, ""},
		"no hook":                   {[]string{"hook", "config"}, exitUsage, "one hook"},
		"not executable":            {[]string{"hook", "config", "modules/010-a/Chart.yaml"}, exitRefused, "chmod +x"},
		"no binding":                {[]string{"hook", "run", hook}, exitUsage, "--binding or --context"},
		"another binding":           {[]string{"hook", "run", hook, "--binding", "pods"}, exitUsage, "it has nodes"},
		"a binding about objects":   {[]string{"hook", "run", hook, "--binding", "nodes"}, exitUsage, "--context"},
		"values with a mistake":     {[]string{"hook", "run", hook, "--binding", "nodes", "--values", hook}, exitRefused, hook},
		"an order binding":          {[]string{"hook", "run", "order.sh", "--binding", "onStartup"}, exitStopped, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := commanded(nil, c.args...)
			if got := exitCode(err); got != c.code {
				t.Errorf("exit code %d, want %d: %v", got, c.code, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %s", err, c.says)
			}
		})
	}
}

// A file that is no scenario is a failure like others: the rest is played, and a pipeline
// finds it in the report.
func TestMalformedScenarioIsReported(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := commanded(nil, "init", "module", "010-a"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("modules/010-a/tests/wrong.yaml", []byte("descripton: a"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := commanded(nil, "test", "--junit", "results.xml")
	if exitCode(err) != exitRefused || !strings.Contains(err.Error(), "1 of 2 scenarios failed") {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"ok    010-a/count-nodes", "FAIL  010-a/wrong", "descripton is unknown; did you mean description?"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	var suite junitSuite
	data, err := os.ReadFile("results.xml")
	if err == nil {
		err = xml.Unmarshal(data, &suite)
	}
	if err != nil || suite.Tests != 2 || suite.Failures != 1 || suite.Cases[1].Failure == nil || !strings.Contains(suite.Cases[1].Failure.Text, "did you mean description?") {
		t.Errorf("results.xml: %v %s", err, data)
	}
}

// M1: files in crds/ that are no definitions by their names disturb a test as little as the
// operator.
func TestScenariosSkipFilesThatAreNoDefinitions(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := commanded(nil, "init", "module", "010-a"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("modules/010-a/crds", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("modules/010-a/crds/doc-ru-a.yaml", []byte("spec: {versions: []}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := commanded(nil, "test"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := commanded(nil, "test", "--crd-filters=_")
	if exitCode(err) != exitRefused || !strings.Contains(out, "doc-ru-a.yaml") {
		t.Errorf("with another filter: %v\n%s", err, out)
	}
}
