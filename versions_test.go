package addonoperator_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// The development cluster is a module of its own. Where it uses a library of the operator it uses the same version:
// otherwise Go compiles it twice, which costs minutes of the first build.
func TestOperatorAndClusterShareVersions(t *testing.T) {
	// What only the command jq needs. Its version 0.12.20, whose library the operator uses, cannot be built: the module
	// proxy lacks one of its dependencies.
	ofJQ := []string{
		"github.com/itchyny/gojq", "github.com/itchyny/timefmt-go", "github.com/clipperhouse/uax29/v2",
		"github.com/mattn/go-isatty", "github.com/mattn/go-runewidth",
	}
	operator, cluster, shared := versions(t, "go.mod"), versions(t, "testkit/devcluster/go.mod"), 0
	for module, version := range operator {
		if other, both := cluster[module]; both && !slices.Contains(ofJQ, module) {
			if shared++; other != version {
				t.Errorf("%s is %s in go.mod and %s in that of the cluster: raise the older one with go get", module, version, other)
			}
		}
	}
	if shared < 50 {
		t.Errorf("only %d modules of go.mod are in that of the cluster: are they read rightly?", shared)
	}
}

// versions are the modules of a go.mod with their versions; a replacement, which comes later in the file, counts.
func versions(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+)(?: => \S+)? (v\S+)`).FindAllStringSubmatch(string(data), -1) {
		all[m[1]] = m[2]
	}
	return all
}
