package lint_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/cmd/lint"
	"addon-operator/testkit/golden"
)

// tree writes the files of an archive to a directory. Scripts are executable. Lines of the comment
// say otherwise: "mode 0644 FILE", "crlf FILE".
func tree(t testing.TB, archive *txtar.Archive) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"modules", "global-hooks"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	says := func(what, name string) bool {
		return strings.Contains("\n"+string(archive.Comment), "\n"+what+" "+name+"\n")
	}
	for _, f := range archive.Files {
		if f.Name == "want" {
			continue
		}
		mode, data := os.FileMode(0o644), f.Data
		if bytes.HasPrefix(data, []byte("#!")) && !says("mode 0644", f.Name) || says("mode 0755", f.Name) {
			mode = 0o755
		}
		if says("crlf", f.Name) {
			data = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
		}
		path := filepath.Join(dir, f.Name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, data, mode))
	}
	return dir
}

// options are those of a test for a directory with modules and global-hooks.
func options(t testing.TB, dir string) lint.Options {
	t.Helper()
	return lint.Options{
		Dirs:  addons.Dirs{Modules: []string{filepath.Join(dir, "modules")}, Global: filepath.Join(dir, "global-hooks"), UnnumberedOrder: 1},
		Tests: true, HookLimit: time.Minute,
	}
}

// Each mistake has a file of its own: a tree, and the findings.
func TestMistakes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			must(t, err)
			o := options(t, tree(t, archive))
			if bytes.Contains(archive.Comment, []byte("hangs")) {
				o.HookLimit, o.StepTimeout = 3*time.Second, 5*time.Second // more than what does not hang takes on a busy machine
			}
			found, _, err := lint.Check(t.Context(), o)
			must(t, err)
			var got strings.Builder
			for _, f := range found {
				got.WriteString(f.String())
			}
			if got.Len() == 0 {
				t.Error("the mistake is silent")
			}
			golden.Part(t, file, archive, "want", got.String())
		})
	}
}

// Without a directory, and without the options of an operator, the current one is looked at.
func TestCurrentDirectory(t *testing.T) {
	t.Chdir(tree(t, txtar.Parse([]byte("-- modules/010-web/templates/a.yaml --\napiVersion: v1\nkind: ConfigMpa\nmetadata: {name: a}\n"))))
	root, c := cli.Root("v1", func(string) (string, bool) { return "", false })
	must(t, c.Read())
	var out bytes.Buffer
	root.AddCommand(lint.Command(c))
	root.SetOut(&out)
	root.SetArgs([]string{"lint"})
	if err := root.Execute(); err == nil || !strings.Contains(out.String(), "010-web/templates/a.yaml:2:1: error: ConfigMpa a") {
		t.Errorf("%v, %s", err, &out)
	}
}
