package local

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"addon-operator/cmd/bring"
	"addon-operator/cmd/cli"
)

// Exit codes of the program.
const exitStopped, exitRefused, exitUsage = 0, 1, 2

func exitCode(err error) int {
	switch {
	case err == nil:
		return exitStopped
	case errors.As(err, new(cli.UsageError)):
		return exitUsage
	}
	return exitRefused
}

// commanded runs a command line.
func commanded(args ...string) (output string, err error) {
	root, c := cli.Root("test", func(string) (string, bool) { return "", false })
	values := cli.Group("values", "")
	values.AddCommand(CheckValues(c))
	root.AddCommand(bring.Init(), Test(c), values)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(args)
	err = root.Execute()
	return out.String(), err
}

// The exit codes of the commands for authors of modules, and what they say.
func TestModuleToolsRefuse(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := commanded("init", "module", "010-a"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"wrong.yaml": "descripton: a", "fails.yaml": "description: a\nexpect: {values: {a: {nodes: 7}}}",
	} {
		must(t, os.WriteFile(name, []byte(text), 0o755))
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
		"a scenario with a mistake": {[]string{"test", "wrong.yaml"}, exitRefused, "1 of 1 scenario failed"},
		"no such scenario":          {[]string{"test", "--run", "zzz"}, exitUsage, "zzz"},
		"no expression":             {[]string{"test", "--run", "("}, exitUsage, "--run"},
		"all is well":               {[]string{"test", "modules"}, exitStopped, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := commanded(c.args...)
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
	if _, err := commanded("init", "module", "010-a"); err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile("modules/010-a/tests/wrong.yaml", []byte("descripton: a"), 0o644))
	out, err := commanded("test", "--junit", "results.xml")
	if exitCode(err) != exitRefused || !strings.Contains(err.Error(), "1 of 2 scenarios failed") {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"ok    010-a/count-nodes", "FAIL  010-a/wrong", "descripton: is not a known key; did you mean description?"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	var suite testReport
	data, err := os.ReadFile("results.xml")
	if err == nil {
		err = xml.Unmarshal(data, &suite)
	}
	if err != nil || suite.Count != 2 || suite.Failed != 1 || !strings.Contains(suite.Tests[1].Failure, "did you mean description?") {
		t.Errorf("results.xml: %v %s", err, data)
	}
}

// M1: files in crds/ that are no definitions by their names disturb a test as little as the
// operator.
func TestScenariosSkipFilesThatAreNoDefinitions(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := commanded("init", "module", "010-a"); err != nil {
		t.Fatal(err)
	}
	must(t, os.Mkdir("modules/010-a/crds", 0o755))
	must(t, os.WriteFile("modules/010-a/crds/doc-ru-a.yaml", []byte("spec: {versions: []}"), 0o644))
	if out, err := commanded("test"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := commanded("test", "--crd-filters=_")
	if exitCode(err) != exitRefused || !strings.Contains(out, "doc-ru-a.yaml") {
		t.Errorf("with another filter: %v\n%s", err, out)
	}
}

// -o json is one document, with the problems of what fails.
func TestTestJSON(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := commanded("init", "module", "010-a"); err != nil {
		t.Fatal(err)
	}
	const two = "tests:\n- description: a\n- {name: bad, description: b, expect: {values: {a: {nodes: 7}}}}"
	must(t, os.WriteFile("modules/010-a/tests/two.yaml", []byte(two), 0o644))
	out, err := commanded("test", "-o", "json", "--run", "two")
	if exitCode(err) != exitRefused {
		t.Errorf("it ends with %v", err)
	}
	var report testReport
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if report.Passed != 1 || report.Failed != 1 || len(report.Tests) != 2 || report.Seconds <= 0 {
		t.Fatalf("got %s", out)
	}
	bad := report.Tests[1]
	if bad.Name != "010-a/two/bad" || bad.Passed || len(bad.Problems) != 1 || bad.Problems[0] != "expect.values: a.nodes must be 7, is 0" || len(bad.Hooks) == 0 || bad.Log == "" {
		t.Errorf("got %+v", bad)
	}
	if !strings.Contains(out, `"problems": []`) {
		t.Errorf("a test without problems must have an empty list: %s", out)
	}
	if _, err := commanded("test", "-o", "xml"); exitCode(err) != exitUsage {
		t.Errorf("-o xml ends with %v", err)
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
