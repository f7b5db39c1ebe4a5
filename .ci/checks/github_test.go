package checks

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"sigs.k8s.io/yaml"
)

const repository = "../../"

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(repository + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// files are those of .github with one of the extensions.
func files(t *testing.T, extensions ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(repository+".github"), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if len(extensions) == 0 || slices.Contains(extensions, filepath.Ext(name)) {
			all[".github/"+name] = read(t, ".github/"+name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The forge reads each file: it is YAML without a key twice, and workflows are without mistakes that actionlint knows.
func TestWorkflowsAreLinted(t *testing.T) {
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	workflows := 0
	for name, text := range files(t, ".yml", ".yaml") {
		if err := yaml.UnmarshalStrict([]byte(text), &map[string]any{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if filepath.Base(filepath.Dir(name)) != "workflows" {
			continue
		}
		workflows++
		found, err := linter.Lint(name, []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			t.Error(e)
		}
	}
	if workflows != 3 {
		t.Errorf("%d workflows", workflows)
	}
}

// A token of a workflow may read, and more only where a comment says what for. Actions of others are named by digest
// with the version behind it, which dependency updates raise. No owner is named: who copies the repository releases
// their own. Base images have a digest, too.
func TestWorkflowsAskForLittle(t *testing.T) {
	for name, text := range files(t, ".yml") {
		if filepath.Base(filepath.Dir(name)) != "workflows" {
			continue
		}
		if !strings.Contains(text, "\npermissions:\n  contents: read\n") {
			t.Errorf("%s: the token may do more than read", name)
		}
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if strings.Contains(line, ": write") && !strings.Contains(line, " # ") {
				t.Errorf("%s: what is this for? %s", name, line)
			}
			if strings.Contains(line, "uses:") && !regexp.MustCompile(`uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`).MatchString(line) {
				t.Errorf("%s: not by digest and version: %s", name, line)
			}
			if m := regexp.MustCompile(`(?:ghcr\.io|github\.com)/([^\s"]+)`).FindStringSubmatch(line); len(m) > 0 && !strings.HasPrefix(m[1], "$") {
				t.Errorf("%s names an owner: %s", name, line)
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?([a-z]+:\S+)`).FindAllStringSubmatch(read(t, "Dockerfile"), -1) {
		if !strings.Contains(m[1], "@sha256:") {
			t.Errorf("Dockerfile: %s has no digest", m[1])
		}
	}
}
