package addons_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"addon-operator/addons"
)

// disk makes files below a fresh directory. A name that ends with a slash is a directory,
// a content "-> target" makes a symbolic link, and one that begins with "#!" is executable.
func disk(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, content := range files {
		write(t, root, name, content)
	}
	return root
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	dir := filepath.Dir(path)
	if strings.HasSuffix(name, "/") {
		dir = path
	}
	must(t, os.MkdirAll(dir, 0o700))
	var err error
	switch target, link := strings.CutPrefix(content, "-> "); {
	case strings.HasSuffix(name, "/"):
	case link:
		err = os.Symlink(target, path)
	case strings.HasPrefix(content, "#!"):
		err = os.WriteFile(path, []byte(content), 0o700)
	default:
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	must(t, err)
}

// dirs are the options for a disk with one root of modules.
func dirs(root string) addons.Dirs {
	return addons.Dirs{Modules: []string{filepath.Join(root, "modules")}, Global: filepath.Join(root, "global"), UnnumberedOrder: 1}
}

// load reads a disk that is in order; global/ is made when it is not among the files.
func load(t *testing.T, files map[string]string) (tree *addons.Tree, root string) {
	t.Helper()
	root = disk(t, files)
	write(t, root, "global/", "")
	tree, err := addons.Load(dirs(root))
	must(t, err)
	return tree, root
}

// loadError reads a disk that is not in order.
func loadError(t *testing.T, files map[string]string) string {
	t.Helper()
	root := disk(t, files)
	write(t, root, "global/", "")
	write(t, root, "modules/", "")
	tree, err := addons.Load(dirs(root))
	if err == nil {
		t.Fatalf("no error; found %q", names(tree))
	}
	return strings.ReplaceAll(err.Error(), root+"/", "")
}

func names(tree *addons.Tree) (list []string) {
	for _, m := range tree.Modules {
		list = append(list, m.Name)
	}
	return list
}

func expectNames(t *testing.T, tree *addons.Tree, want ...string) {
	t.Helper()
	if got := names(tree); !slices.Equal(got, want) {
		t.Errorf("modules are %q, want %q", got, want)
	}
}

// expectWarnings compares by parts, in any order.
func expectWarnings(t *testing.T, tree *addons.Tree, parts ...string) {
	t.Helper()
	if len(tree.Warnings) != len(parts) {
		t.Errorf("%d warnings, want %d: %q", len(tree.Warnings), len(parts), tree.Warnings)
	}
	for _, part := range parts {
		if !slices.ContainsFunc(tree.Warnings, func(w string) bool { return strings.Contains(w, part) }) {
			t.Errorf("no warning says %q: %q", part, tree.Warnings)
		}
	}
}

func module(t *testing.T, tree *addons.Tree, name string) addons.Module {
	t.Helper()
	m := tree.Module(name)
	if m == nil {
		t.Fatalf("no module %s", name)
	}
	return *m
}
