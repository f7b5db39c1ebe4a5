package addons_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"addon-operator/addons"
)

// A3: parts are separated by colons, empty ones are skipped.
func TestSplitPath(t *testing.T) {
	for list, want := range map[string][]string{
		"":                     {},
		":":                    {},
		"/modules":             {"/modules"},
		"/a:/b":                {"/a", "/b"},
		":/a:: :modules/more:": {"/a", "modules/more"},
	} {
		if got := addons.SplitPath(list); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
}

// A4, A5, A6: order, name and key come from the name of the directory.
func TestNamesOfModules(t *testing.T) {
	for base, want := range map[string]struct {
		name, key string
		order     int
	}{
		"001-nginx-ingress": {"nginx-ingress", "nginxIngress", 1},
		"010-dns":           {"dns", "dns", 10},
		"7-a":               {"a", "a", 7},
		"0-a":               {"a", "a", 0},
		"12345-a-b-c":       {"a-b-c", "aBC", 12345},
		"2147483647-last":   {"last", "last", 1<<31 - 1},
		"unnumbered":        {"unnumbered", "unnumbered", 77},
		"no-number-3d":      {"", "", 0}, // a word must begin with a letter
		"simple-one-module": {"simple-one-module", "simpleOneModule", 77},
		"100-http2-proxy":   {"http2-proxy", "http2Proxy", 100},
	} {
		t.Run(base, func(t *testing.T) {
			root := disk(t, map[string]string{"modules/" + base + "/": "", "global/": ""})
			d := dirs(root)
			d.UnnumberedOrder = 77
			tree, err := addons.Load(d)
			if want.name == "" {
				if err == nil || !strings.Contains(err.Error(), base) {
					t.Errorf("got %v", err)
				}
				return
			}
			must(t, err)
			m := tree.Modules[0]
			if m.Name != want.name || m.Key != want.key || m.Order != want.order || m.Base != base {
				t.Errorf("got %s, %s, %d, %s", m.Name, m.Key, m.Order, m.Base)
			}
			if m.Root != d.Modules[0] || m.Dir != filepath.Join(m.Root, base) || m.HooksDir() != filepath.Join(m.Dir, "hooks") {
				t.Errorf("lies in %s, root %s, hooks %s", m.Dir, m.Root, m.HooksDir())
			}
		})
	}
}

// A6: names that do not turn back into themselves are refused; so no two names can have
// the same key. The message proposes the right name.
func TestWrongNames(t *testing.T) {
	for base, want := range map[string]string{
		"010-module-2":    `rename the module to "module2"`,
		"010-MyModule":    `rename the module to "my-module"`,
		"my_module":       `rename the module to "my-module"`,
		"010-a--b":        `rename the module to "a-b"`,
		"010-":            "module directory 010-: ",
		"010":             "module directory 010: ",
		"-dns":            `rename the module to "dns"`,
		"2147483648-dns":  "module directory 2147483648-dns: ", // A4: 31 bits
		"-1-dns":          "module directory -1-dns: ",
		"global":          `"global" is reserved`,
		"010-converge":    `"converge" is reserved`,
		"010-dns-enabled": "would be read as a flag",
	} {
		t.Run(base, func(t *testing.T) {
			if got := loadError(t, map[string]string{"modules/" + base + "/": ""}); !strings.Contains(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// All mistakes are reported at once, each with its file.
func TestAllMistakesAtOnce(t *testing.T) {
	got := loadError(t, map[string]string{
		"modules/010-One/":                     "",
		"modules/020-Two/":                     "",
		"modules/values.yaml":                  "dns: [1",
		"modules/030-three/values.yaml":        "three: 5",
		"modules/040-four/openapi/values.yaml": "type: objekt",
		"global/openapi/config-values.yaml":    "{",
	})
	for _, want := range []string{"directory 010-One", "directory 020-Two", "file values.yaml", "file 030-three/values.yaml",
		"schema 040-four/openapi/values.yaml", "schema ../global/openapi/config-values.yaml"} {
		if !strings.Contains(got, want) {
			t.Errorf("says nothing of %s:\n%s", want, got)
		}
	}
}

// A8, X23: by number, whatever its width, then by name.
func TestOrder(t *testing.T) {
	tree, _ := load(t, map[string]string{
		"modules/10-a/": "", "modules/9-b/": "", "modules/0100-c/": "", "modules/100-d/": "", "modules/unnumbered/": "", "modules/001-z/": "",
	})
	expectNames(t, tree, "unnumbered", "z", "b", "a", "c", "d")
	expectWarnings(t, tree)
}

// A11 within one root: the first of the listing has the name.
func TestSameNameTwiceInOneRoot(t *testing.T) {
	tree, _ := load(t, map[string]string{"modules/010-dns/": "", "modules/020-dns/": "", "modules/dns/": ""})
	expectNames(t, tree, "dns")
	expectWarnings(t, tree, `module "dns" in 020-dns is ignored: 010-dns has`, `module "dns" in dns is ignored`)
}

// A9, A10: what is no module, and what a link is.
func TestEntriesOfARoot(t *testing.T) {
	tree, root := load(t, map[string]string{
		"elsewhere/dns/values.yaml": "linkedName: {a: 1}\ndns: {a: 2}",
		"elsewhere/file":            "",
		"modules/010-real/":         "",
		"modules/020-linked-name":   "-> ../elsewhere/dns",
		"modules/030-relink":        "-> 020-linked-name",
		"modules/040-dangling":      "-> nowhere",
		"modules/050-to-file":       "-> ../elsewhere/file",
		"modules/060-loop":          "-> 060-loop",
		"modules/README.md":         "",
		"modules/values.yaml":       "real: {a: 1}",
		"modules/.git/":             "",
	})
	expectNames(t, tree, "real", "linked-name", "relink")
	expectWarnings(t, tree, "040-dangling", "050-to-file", "060-loop", "README.md")
	if want := []string{"dangling", "loop"}; !slices.Equal(tree.Unreachable, want) {
		t.Errorf("links to nothing are %q, want %q", tree.Unreachable, want)
	}
	linked := module(t, tree, "linked-name")
	if linked.Order != 20 || linked.Dir != filepath.Join(root, "modules/020-linked-name") {
		t.Errorf("name and order must come from the link: %d, %s", linked.Order, linked.Dir)
	}
	if len(linked.Static) != 1 {
		t.Errorf("the content must come from the target: %v", linked.Static)
	}
}

// A19: messages name files as people do, where that is unambiguous; a file is opened by another path.
func TestShownPaths(t *testing.T) {
	one := addons.Dirs{Modules: []string{"/a/modules"}, Global: "/a/global-hooks"}
	here, err := os.Getwd()
	must(t, err)
	for name, c := range map[string]struct {
		dirs       addons.Dirs
		path, want string
	}{
		"a file of a module":                           {one, "/a/modules/010-dns/openapi/values.yaml", "010-dns/openapi/values.yaml"},
		"a module":                                     {one, "/a/modules/010-dns", "010-dns"},
		"a name that begins with dots":                 {one, "/a/modules/..dns/values.yaml", "..dns/values.yaml"},
		"values of all modules":                        {one, "/a/modules/values.yaml", "values.yaml"},
		"a global file":                                {one, "/a/global-hooks/openapi/values.yaml", "../global-hooks/openapi/values.yaml"},
		"the directory of modules":                     {one, "/a/modules", "/a/modules"},
		"the directory of global hooks":                {one, "/a/global-hooks", "/a/global-hooks"},
		"another file next to the modules":             {one, "/a/other/values.yaml", "/a/other/values.yaml"},
		"a directory whose name begins the same":       {one, "/a/modules-2/010-dns", "/a/modules-2/010-dns"},
		"global hooks that are elsewhere":              {addons.Dirs{Modules: []string{"/a/modules"}, Global: "/b/global-hooks"}, "/b/global-hooks/openapi/values.yaml", "/b/global-hooks/openapi/values.yaml"},
		"global hooks in the directory of modules":     {addons.Dirs{Modules: []string{"/a"}, Global: "/a/global"}, "/a/global/openapi/values.yaml", "global/openapi/values.yaml"},
		"several directories":                          {addons.Dirs{Modules: []string{"/a/modules", "/b/modules"}, Global: "/a/global"}, "/a/modules/010-dns", "/a/modules/010-dns"},
		"relative directories":                         {addons.Dirs{Modules: []string{"modules"}, Global: "global"}, "modules/010-dns", "010-dns"},
		"relative directories, and a path that is not": {addons.Dirs{Modules: []string{"modules/"}, Global: "global"}, filepath.Join(here, "modules/010-dns"), "010-dns"},
		"for a program that opens them":                {addons.Dirs{Modules: []string{"/a/modules"}, Global: "/a/global", FullPaths: true}, "/a/modules/010-dns", "/a/modules/010-dns"},
	} {
		if got := c.dirs.Shown(c.path); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// A3, A11: several roots; of modules with the same name the first root has it.
func TestSeveralRoots(t *testing.T) {
	root := disk(t, map[string]string{
		"a/010-dns/": "", "a/020-web/": "", "b/005-dns/": "", "b/015-mail/": "", "global/": "",
	})
	a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
	for name, c := range map[string]struct {
		roots []string
		want  []string
		dns   string
	}{
		"a before b": {[]string{a, b}, []string{"dns", "mail", "web"}, "a/010-dns"},
		"b before a": {[]string{b, a}, []string{"dns", "mail", "web"}, "b/005-dns"},
		"a alone":    {[]string{a}, []string{"dns", "web"}, "a/010-dns"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := addons.Load(addons.Dirs{Modules: c.roots, Global: filepath.Join(root, "global")})
			must(t, err)
			expectNames(t, tree, c.want...)
			if got := module(t, tree, "dns").Dir; got != filepath.Join(root, c.dns) {
				t.Errorf("dns lies in %s", got)
			}
			if len(c.roots) > 1 {
				expectWarnings(t, tree, `module "dns"`)
			}
		})
	}
}

// X22: relative paths count from where the operator was started; what is kept is absolute.
func TestRelativeDirectories(t *testing.T) {
	root := disk(t, map[string]string{"modules/010-dns/": "", "global/hooks/": ""})
	t.Chdir(root)
	tree, err := addons.Load(addons.Dirs{Modules: []string{"modules"}, Global: "global"})
	must(t, err)
	for _, path := range []string{tree.Modules[0].Dir, tree.Modules[0].Root, tree.Global.Dir, tree.Global.HooksDir} {
		if !filepath.IsAbs(path) {
			t.Errorf("%s is relative", path)
		}
	}
}

// A3, B8: a directory that is not there, or is none, stops the start.
func TestMissingDirectories(t *testing.T) {
	root := disk(t, map[string]string{"modules/": "", "global/": "", "file": ""})
	modules, global, file, gone := filepath.Join(root, "modules"), filepath.Join(root, "global"), filepath.Join(root, "file"), filepath.Join(root, "gone")
	for name, c := range map[string]struct {
		dirs addons.Dirs
		want []string
	}{
		"no modules directory at all": {addons.Dirs{Global: global}, []string{"MODULES_DIR"}},
		"modules directory is gone":   {addons.Dirs{Modules: []string{gone}, Global: global}, []string{gone + " does not exist", "MODULES_DIR"}},
		"one of several is gone":      {addons.Dirs{Modules: []string{modules, gone}, Global: global}, []string{gone + " does not exist"}},
		"modules directory is a file": {addons.Dirs{Modules: []string{file}, Global: global}, []string{file + " is not a directory", "MODULES_DIR"}},
		"global directory is gone":    {addons.Dirs{Modules: []string{modules}, Global: gone}, []string{gone + " does not exist", "GLOBAL_HOOKS_DIR"}},
		"global directory is a file":  {addons.Dirs{Modules: []string{modules}, Global: file}, []string{file + " is not a directory", "GLOBAL_HOOKS_DIR"}},
		"both are gone":               {addons.Dirs{Modules: []string{gone}, Global: gone}, []string{"MODULES_DIR", "GLOBAL_HOOKS_DIR"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := addons.Load(c.dirs)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

// P1: a root without a module is reported: also one with files only, one whose modules are
// hidden files, and one that is emptied later. One whose modules are in an earlier root, too, is
// not empty.
func TestEmptyRoots(t *testing.T) {
	root := disk(t, map[string]string{"full/a/": "", "same/a/": "", "none/": "", "files/values.yaml": "", "files/.hidden/": "", "global/": ""})
	d := dirs(root)
	at := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join(root, name))
		}
		return paths
	}
	d.Modules = at("full", "same", "none", "files")
	tree, err := addons.Load(d)
	must(t, err)
	if want := at("none", "files"); !slices.Equal(tree.Empty, want) {
		t.Errorf("empty are %q, want %q", tree.Empty, want)
	}
	write(t, root, "none/b/", "")
	must(t, os.Remove(filepath.Join(root, "same", "a")))
	tree, err = tree.Refresh(d)
	must(t, err)
	if want := at("same", "files"); !slices.Equal(tree.Empty, want) {
		t.Errorf("later empty are %q, want %q", tree.Empty, want)
	}
}
