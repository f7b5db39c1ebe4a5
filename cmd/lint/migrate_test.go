package lint_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"addon-operator/cmd/cli"
	"addon-operator/cmd/lint"
	"addon-operator/testkit/golden"
)

// fromExisting runs the command in a directory, as people do.
func fromExisting(t *testing.T, dir string, args ...string) (text string, err error) {
	t.Helper()
	t.Chdir(dir)
	root, c := cli.Root("v1", func(string) (string, bool) { return "", false })
	if err := c.Read(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	root.AddCommand(lint.Command(c))
	root.SetOut(&out)
	root.SetArgs(append([]string{"lint", "--from-addon-operator", "--configmap", "configmap.yaml", "--deployment", "deployment.yaml", "--queries", "alerts.yaml"}, args...))
	err = root.Execute()
	return out.String(), err
}

// What needs a hand in a tree of the existing operator is named, with its place and its fix; a tree
// that is the same in both is clean.
func TestMigration(t *testing.T) {
	for _, name := range []string{"everything", "configmap", "clean"} {
		t.Run(name, func(t *testing.T) {
			file, err := filepath.Abs("testdata/migrate/" + name + ".txtar")
			if err != nil {
				t.Fatal(err)
			}
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := fromExisting(t, tree(t, archive))
			if (err == nil) != (name == "clean") {
				t.Errorf("error %v", err)
			}
			golden.Part(t, file, archive, "want", got)
			if strings.Contains(got, "hunter2") || strings.Contains(got, "horse") {
				t.Error("a secret is shown")
			}
		})
	}
}

// The other formats have the same findings.
func TestMigrationFormats(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/migrate/everything.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := tree(t, archive)
	text, _ := fromExisting(t, dir, "-o", "json")
	var found struct{ Findings []lint.Finding }
	if err := json.Unmarshal([]byte(text), &found); err != nil || len(found.Findings) < 20 {
		t.Fatalf("%v: %s", err, text)
	}
	annotations, _ := fromExisting(t, dir, "-o", "github")
	for _, f := range found.Findings {
		if f.Fix == "" {
			t.Errorf("no fix: %s", f)
		}
		if !strings.Contains(annotations, "file="+f.Path+",") {
			t.Errorf("no annotation for %s", f.Path)
		}
	}
}
