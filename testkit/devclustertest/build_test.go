package devclustertest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// .ci/build, with a stand-in for go that writes down its calls.
func TestProgramIsBuiltWhenMissingOrOlderThanItsSources(t *testing.T) {
	root, err := repositoryRoot()
	must(t, err)
	dir := t.TempDir()
	script, err := os.ReadFile(filepath.Join(root, ".ci", "build"))
	must(t, err)
	const standIn = `#!/usr/bin/env bash
case $1 in
  list) echo example.com/package ;;
  build) echo "$GOFLAGS $CGO_ENABLED" >>calls; touch bin/devcluster bin/kubectl bin/gojq; [[ $GOFLAGS != *1.34* ]] || touch bin/devcluster-1.34; chmod +x bin/* ;;
esac
`
	now := time.Now()
	writeAt := func(name, text string, at time.Time) {
		t.Helper()
		path := filepath.Join(dir, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755), os.Chtimes(path, at, at)))
	}
	writeAt(".ci/build", string(script), now)
	writeAt(".ci/goflags", "-flags=of-the-house\n", now)
	writeAt("tools/go", standIn, now)
	writeAt("testkit/devcluster/go.mod", "", now)
	writeAt("testkit/devcluster/ldflags", "echo -s", now)
	writeAt("testkit/devcluster/kube-1.34.mod", "", now)
	writeAt("testkit/devcluster/main.go", "", now)
	calls := 0
	check := func(situation string, builds int, what ...string) {
		t.Helper()
		cmd := exec.Command("bash", append([]string{filepath.Join(dir, ".ci", "build")}, what...)...)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "tools")+string(os.PathListSeparator)+os.Getenv("PATH"), "GOFLAGS=")
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", situation, err, output)
		}
		written, _ := os.ReadFile(filepath.Join(dir, "calls"))
		before := calls
		calls = len(regexp.MustCompile(`(?m)^-flags=of-the-house( -modfile=kube-1\.34\.mod -tags=kube_1_34)? 0$`).FindAll(written, -1))
		if calls-before != builds {
			t.Errorf("%s: %d calls of go build, want %d\n%s", situation, calls-before, builds, output)
		}
	}

	check("missing", 2, "cluster", "tools")
	check("newer than the sources", 0, "cluster", "tools")
	writeAt("testkit/devcluster/main.go", "", time.Now().Add(time.Minute))
	check("a source of the cluster is newer", 1, "cluster", "tools")
	writeAt("testkit/devcluster/go.mod", "", time.Now().Add(time.Minute))
	check("the versions of the tools are newer", 1, "tools")
	writeAt("testkit/devcluster/main.go", "", now)
	check("an older cluster", 1, "cluster-1.34")
	check("an older cluster, newer than its sources", 0, "cluster-1.34")
	writeAt("testkit/devcluster/kube-1.34.mod", "", time.Now().Add(time.Minute))
	check("the versions of the older cluster are newer", 1, "cluster-1.34")
	if written, _ := os.ReadFile(filepath.Join(dir, "calls")); strings.Count(string(written), "-modfile=kube-1.34.mod -tags=kube_1_34") != 2 {
		t.Errorf("the older cluster is not built from its own go.mod:\n%s", written)
	}
}
