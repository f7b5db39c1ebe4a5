package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

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
