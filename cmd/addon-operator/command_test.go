package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"addon-operator/cmd/cli"
)

// variables is an environment that is not the one of this process.
type variables map[string]string

func (v variables) lookup(name string) (string, bool) {
	value, ok := v[name]
	return value, ok
}

// configured reads options as the program does.
func configured(env variables) (*cli.Config, error) {
	_, cfg := cli.Root(version, env.lookup)
	if err := cfg.Read(); err != nil {
		return nil, err
	}
	return cfg, cfg.Complete()
}

// commanded runs a command line that ends before the operator would start.
func commanded(env variables, args ...string) (output string, err error) {
	root := command(env.lookup)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{}, args...)) // nil would stand for the arguments of the test
	err = root.Execute()
	return out.String(), err
}

// A person finds the command that completes names.
func TestHelpListsCompletion(t *testing.T) {
	out, err := commanded(nil, "--help")
	if err != nil || !strings.Contains(out, "\n  completion ") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := commanded(nil, "help", "values", "set"); err != nil || !strings.Contains(out, "--dry-run") || !strings.Contains(out, "--help") {
		t.Errorf("%v: %s", err, out)
	}
}

// Design 9: 0 stopped, 1 refused, 2 usage.
func TestExitCodes(t *testing.T) {
	none := t.TempDir() + "/none.socket"
	for name, c := range map[string]struct {
		env  variables
		args []string
		code int
		says string
	}{
		"version":                      {nil, []string{"version"}, exitStopped, ""},
		"help":                         {nil, []string{"--help"}, exitStopped, ""},
		"unknown argument":             {nil, []string{"stop"}, exitUsage, `"stop"`},
		"misspelt command":             {nil, []string{"queu"}, exitUsage, "did you mean queue?"},
		"misspelt command of a group":  {nil, []string{"queue", "lsit"}, exitUsage, "did you mean list?"},
		"help of a command":            {nil, []string{"help", "values", "set"}, exitStopped, ""},
		"command of a group":           {nil, []string{"queue", "nothing"}, exitUsage, `"nothing"`},
		"argument of start":            {nil, []string{"start", "now"}, exitUsage, `"now"`},
		"argument of version":          {nil, []string{"version", "now"}, exitUsage, `"now"`},
		"unknown format of version":    {nil, []string{"version", "-o", "xml"}, exitUsage, `"xml"; it must be text, json or yaml`},
		"unknown flag":                 {nil, []string{"--colour"}, exitUsage, "--colour"},
		"unknown flag of start":        {nil, []string{"start", "--colour"}, exitUsage, "--colour"},
		"wrong value of a flag":        {nil, []string{"--kube-client-qps=x"}, exitUsage, "kube-client-qps"},
		"wrong value of a variable":    {variables{"KUBE_CLIENT_QPS": "x"}, nil, exitUsage, "KUBE_CLIENT_QPS"},
		"unknown log level":            {nil, []string{"--namespace=a", "--log-level=loud"}, exitUsage, "loud"},
		"unknown log type":             {nil, []string{"--namespace=a", "--log-type=xml"}, exitUsage, "xml"},
		"unknown format":               {nil, []string{"--dump-actors", "-o", "xml"}, exitUsage, "xml"},
		"no namespace":                 {nil, nil, exitRefused, "namespace"},
		"no namespace for start":       {nil, []string{"start"}, exitRefused, "namespace"},
		"nobody to ask":                {nil, []string{"--dump-actors", "--debug-address=", "--debug-unix-socket=" + none}, exitRefused, none},
		"nobody to ask on a socket":    {nil, []string{"queue", "list", "--debug-unix-socket=" + none}, exitRefused, "is --debug-unix-socket ("},
		"nobody to ask, all is off":    {nil, []string{"--dump-actors", "--debug-address=", "--debug-unix-socket="}, exitRefused, "are disabled"},
		"an address that is no such":   {nil, []string{"--dump-actors", "--debug-address=a b"}, exitUsage, "debug-address"},
		"kubeconfig that is not there": {nil, []string{"--namespace=a", "--log-level=error", "--kube-config=" + none}, exitRefused, none},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := commanded(c.env, c.args...)
			if got := exitCode(err); got != c.code {
				t.Errorf("exit code %d, want %d: %v", got, c.code, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.says) || err == nil && c.says != "" {
				t.Errorf("got %v, want %s", err, c.says)
			}
		})
	}
}

// B2: existing installations have this command; help does not list it.
func TestDebugOptions(t *testing.T) {
	out, err := commanded(nil, "debug-options")
	if err != nil || !strings.Contains(out, "--debug-unix-socket") || !strings.Contains(out, "--log-level") || strings.Contains(out, "--namespace") {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err = commanded(nil, "--help"); err != nil || strings.Contains(out, "debug-options") {
		t.Errorf("help: %v\n%s", err, out)
	}
}

// B2.
func TestVersion(t *testing.T) {
	for _, line := range []string{"version", "--version"} {
		if out, err := commanded(nil, line); out != "addon-operator dev\n" || err != nil {
			t.Errorf("%s: got %q, %v", line, out, err)
		}
	}
}

// A bug report and a script read the same from both formats: the libraries are those of go.mod.
func TestVersionForPrograms(t *testing.T) {
	asJSON, err := commanded(nil, "version", "-o", "json")
	must(t, err)
	asYAML, err := commanded(nil, "version", "-o", "yaml")
	must(t, err)
	var v, other versions
	must(t, json.Unmarshal([]byte(asJSON), &v))
	if err := yaml.UnmarshalStrict([]byte(asYAML), &other); err != nil || !reflect.DeepEqual(other, v) {
		t.Errorf("JSON %+v, YAML %+v, %v", v, other, err)
	}
	gomod, err := os.ReadFile(repository + "go.mod")
	must(t, err)
	required := func(module string) string {
		m := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(module) + ` (\S+)$`).FindStringSubmatch(string(gomod))
		if m == nil {
			t.Fatalf("go.mod does not name %s", module)
		}
		return m[1]
	}
	if v.Version != "dev" || v.Commit != "unknown" || v.Date != "unknown" || v.Go != runtime.Version() ||
		v.Platform != runtime.GOOS+"/"+runtime.GOARCH || v.Helm != required("helm.sh/helm/v3") || v.ClientGo != required("k8s.io/client-go") {
		t.Errorf("%+v", v)
	}
}

// minorOf returns the minor version of the Kubernetes that a go.mod requires.
func minorOf(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	m := regexp.MustCompile(`(?m)^\tk8s\.io/kubernetes v1\.(\d+)\.`).FindSubmatch(data)
	if m == nil {
		t.Fatalf("%s requires no k8s.io/kubernetes", file)
	}
	minor, _ := strconv.Atoi(string(m[1])) // they are digits
	return minor
}

// kubectl is made for API servers of one minor version around its own: all that the operator is tested on.
func TestKubectlOfTheImage(t *testing.T) {
	dockerfile, err := os.ReadFile(repository + "Dockerfile")
	must(t, err)
	_, rest, _ := strings.Cut(string(dockerfile), "\nARG KUBECTL=")
	file, _, _ := strings.Cut(rest, "\n")
	kubectl := minorOf(t, repository+"testkit/devcluster/"+file)
	files, err := filepath.Glob(repository + "testkit/devcluster/*.mod")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		if minor := minorOf(t, file); max(minor-kubectl, kubectl-minor) > 1 {
			t.Errorf("kubectl 1.%d of the image is not made for Kubernetes 1.%d", kubectl, minor)
		}
	}
}
