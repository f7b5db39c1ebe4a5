package hooks

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree makes files below a fresh directory. A name that ends with * gets the executable bit.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		name, executable := strings.CutSuffix(name, "*")
		path := filepath.Join(root, name)
		mode := os.FileMode(0o644)
		if executable {
			mode = 0o744
		}
		write(t, path, "#!/bin/sh\n", mode)
	}
	return root
}

// write makes a file, and the directories above it.
func write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)))
}

func names(files []File) []string {
	var names []string
	for _, file := range files {
		names = append(names, file.Name)
	}
	return names
}

func TestFind(t *testing.T) {
	for situation, test := range map[string]struct {
		files    []string
		prefix   string
		scope    Scope
		want     []string
		warnings int
	}{
		"alphabetical order of paths, at every depth": {
			files: []string{"b.sh*", "a/z.sh*", "a/b/c*", "a.sh*", "a-b.sh*"},
			scope: Global, want: []string{"a-b.sh", "a.sh", "a/b/c", "a/z.sh", "b.sh"}},
		"names of module hooks begin with the module directory (A16)": {
			files: []string{"sub/hook.sh*"}, prefix: "001-nginx-ingress/hooks",
			scope: Module, want: []string{"001-nginx-ingress/hooks/sub/hook.sh"}},
		"hidden files and directories": {
			files: []string{".hidden*", ".git/hook*", "a/.b/c*", "a/.d*", "x*"}, scope: Global, want: []string{"x"}},
		"lib at every depth": {
			files: []string{"lib/x.sh*", "a/lib/y.sh*", "a/lib.sh*"}, scope: Module, want: []string{"a/lib.sh"}},
		"venv of a module hook":   {files: []string{"venv/bin/python*", "x*"}, scope: Module, want: []string{"x"}},
		"venv of a global hook":   {files: []string{"venv/x*"}, scope: Global, want: []string{"venv/x"}},
		"files that are no hooks": {files: []string{"a.yaml*", "b.json*", "c.md*", "d.txt*", "e.yml*"}, scope: Global, want: []string{"e.yml"}},
		"a script that is not executable": {
			files: []string{"a.sh", "b.sh*", "README.md"}, scope: Global, want: []string{"b.sh"}, warnings: 1},
		"names that are not UTF-8, which no label of a metric may have": {
			files: []string{"gr\xfc\xdfe*", "b\xfc/c*", "x*", "b\xfc.md"}, scope: Module, want: []string{"x"}, warnings: 2},
		"no hooks": {scope: Module},
	} { // A15
		t.Run(situation, func(t *testing.T) {
			root := tree(t, test.files...)
			files, warnings, err := Find(root, test.prefix, test.scope)
			must(t, err)
			if got := names(files); !slices.Equal(got, test.want) {
				t.Errorf("found %v, want %v", got, test.want)
			}
			if len(warnings) != test.warnings {
				t.Errorf("warnings %q, want %d", warnings, test.warnings)
			}
			for _, file := range files {
				if want := filepath.Join(root, strings.TrimPrefix(file.Name, test.prefix)); file.Path != want {
					t.Errorf("path %s, want %s", file.Path, want)
				}
			}
		})
	}
}

func TestFindFollowsLinksToFilesOnly(t *testing.T) { // A15
	elsewhere := tree(t, "target.sh*", "dir/x.sh*")
	root := tree(t, "own.sh*")
	for name, target := range map[string]string{"linked": "target.sh", "linkeddir": "dir", "dangling": "nowhere"} {
		must(t, os.Symlink(filepath.Join(elsewhere, target), filepath.Join(root, name)))
	}
	module := filepath.Join(t.TempDir(), "hooks")
	if err := os.Symlink(root, module); err != nil { // the root itself may be a link, as modules may (A10)
		t.Fatal(err)
	}

	files, warnings, err := Find(module, "", Module)

	must(t, err)
	if got := names(files); !slices.Equal(got, []string{"linked", "own.sh"}) {
		t.Errorf("found %v", got)
	}
	if len(warnings) != 2 || !strings.Contains(warnings[0].String(), "is a broken link") || !strings.Contains(warnings[1].String(), "link to a directory") {
		t.Errorf("warnings %q", warnings)
	}
	if len(files) > 0 && files[0].Path != filepath.Join(module, "linked") {
		t.Errorf("path %s is not the link's own, so the hook would run in a foreign directory", files[0].Path)
	}
}

func TestFindRoot(t *testing.T) {
	t.Run("that does not exist", func(t *testing.T) {
		files, warnings, err := Find(filepath.Join(t.TempDir(), "hooks"), "", Module)
		if files != nil || warnings != nil || err != nil {
			t.Errorf("got %v, %v, %v", files, warnings, err)
		}
	})
	t.Run("that is none", func(t *testing.T) { // not the working directory
		t.Chdir(tree(t, "a*", "b"))
		files, warnings, err := Find("", "", Global)
		if files != nil || warnings != nil || err != nil {
			t.Errorf("got %v, %v, %v", files, warnings, err)
		}
	})
	t.Run("that is a file", func(t *testing.T) {
		path := filepath.Join(tree(t, "file"), "file")
		if _, _, err := Find(path, "", Module); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v does not name %s", err, path)
		}
	})
	t.Run("that is relative", func(t *testing.T) {
		t.Chdir(tree(t, "hooks/a*"))
		files, _, err := Find("hooks", "", Global)
		if err != nil || len(files) != 1 || !filepath.IsAbs(files[0].Path) {
			t.Errorf("got %v, %v", files, err)
		}
	})
}

// A file that is no hook has the name of a hook in the log; lint, which opens it, has its path.
func TestUnusedFilesAreNamed(t *testing.T) {
	root := tree(t, "sub/plain.sh", "gr\xfc\xdfe*")
	_, unused, err := Find(root, "010-dns/hooks", Module)
	if err != nil || len(unused) != 2 {
		t.Fatalf("unused are %v, err %v", unused, err)
	}
	if got, want := unused[0].String(), `"010-dns/hooks/gr\xfc\xdfe" has a name that is not UTF-8`; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := unused[1].String(), "010-dns/hooks/sub/plain.sh is not executable"; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
