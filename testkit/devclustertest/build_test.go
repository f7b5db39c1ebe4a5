package devclustertest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestProgramIsBuiltWhenMissingOrOlderThanItsSources(t *testing.T) {
	dir := t.TempDir()
	target, source := filepath.Join(dir, "program"), filepath.Join(dir, "source.go")
	now := time.Now()
	writeAt := func(path string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	check := func(situation string, want bool) {
		t.Helper()
		got, err := upToDate(target, filepath.Join(dir, "*.go"))
		if err != nil || got != want {
			t.Errorf("%s: up to date %v, %v; want %v", situation, got, err, want)
		}
	}

	writeAt(source, now)
	check("missing", false)
	writeAt(target, now.Add(time.Second))
	check("newer than its source", true)
	writeAt(source, now.Add(2*time.Second))
	check("older than its source", false)
}

func TestNamespaceNames(t *testing.T) {
	label := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	for situation, test := range map[string]struct{ name, prefix string }{
		"a test":            {"TestHook", "testhook-"},
		"a subtest":         {"TestHook/runs_twice", "testhook-runs-twice-"},
		"long":              {"Test" + strings.Repeat("x", 200), "testxxx"},
		"cut at a dash":     {"Test" + strings.Repeat("x", 35) + "/y", "testxxx"},
		"other alphabets":   {"TestÄ/日本", "test"},
		"ends with a slash": {"Test/", "test-"},
	} {
		t.Run(situation, func(t *testing.T) {
			name := namespaceName(test.name)
			if !label.MatchString(name) || !strings.HasPrefix(name, test.prefix) {
				t.Errorf("%q from %q: want a label that starts with %q", name, test.name, test.prefix)
			}
			if name == namespaceName(test.name) {
				t.Errorf("%q twice", name)
			}
		})
	}
}

func TestModulePath(t *testing.T) {
	for situation, test := range map[string]struct{ gomod, want string }{
		"plain":         {"module addon-operator\n\ngo 1.26\n", "addon-operator"},
		"after comment": {"// module other\nmodule addon-operator\n", "addon-operator"},
		"none":          {"go 1.26\n", ""},
	} {
		if got := modulePath([]byte(test.gomod)); got != test.want {
			t.Errorf("%s: %q, want %q", situation, got, test.want)
		}
	}
}

func TestRepositoryRootIsFoundFromAPackage(t *testing.T) {
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "testkit", "devcluster", "go.mod")); err != nil {
		t.Errorf("root %s: %v", root, err)
	}
	t.Chdir(t.TempDir())
	if _, err := repositoryRoot(); err == nil {
		t.Error("found one outside of the repository")
	}
}

// The lock lets one build at a time: a plain counter is safe under it, and the
// race detector looks on.
func TestLockedSectionsDoNotOverlap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	inside := 0
	var group sync.WaitGroup
	var mu sync.Mutex // for the detector, which does not know file locks
	for range 8 {
		group.Go(func() {
			unlock, err := lockFile(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			enter := func(by int) int {
				mu.Lock()
				defer mu.Unlock()
				inside += by
				return inside
			}
			if n := enter(1); n != 1 {
				t.Errorf("%d inside", n)
			}
			enter(-1)
		})
	}
	group.Wait()
}
