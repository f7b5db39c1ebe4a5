// Package addonoperator_test checks the repository itself: which package may import which.
package addonoperator_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "addon-operator/"
	all    = "actors messages supervisor values hooks addons kube helm server"
)

// layout says who may import whom; names are separated by spaces.
type layout struct {
	folders   map[string]string // folder → folders of ours
	libraries map[string]string // library → folders that may import it
}

// folders is the table of Design 1. A folder that is missing may not exist: the
// direction of its imports must be decided first.
func folders() layout {
	return layout{
		folders: map[string]string{
			"values":     "",
			"jq":         "",
			"kube":       "jq",
			"helm":       "",
			"supervisor": "",
			"hooks":      "values jq",
			"addons":     "values",
			"messages":   "values hooks",
			"actors":     "messages supervisor values hooks addons kube helm",
			"server":     "messages supervisor values",
			"testkit":    all,
			"examples":   "", // a script, and the test that plays it
			"deploy":     "",
			"cmd":        all + " deploy",
		},
		libraries: map[string]string{
			"github.com/asynkron/protoactor-go": "actors supervisor testkit",
			"k8s.io/client-go":                  "kube helm testkit",
			"helm.sh/helm":                      "helm",
			"github.com/itchyny/gojq":           "jq",
			"go.opentelemetry.io/otel":          "actors cmd",
		},
	}
}

// violation says what is wrong with an import of a file, or nothing. Tests may play with
// testkit and may know the libraries that what they test is made of.
func (p layout) violation(file, imported string) string {
	folder, _, _ := strings.Cut(file, "/")
	allowed, known := p.folders[folder]
	if !known {
		return fmt.Sprintf("%s: the folder %s is not in the layout", file, folder)
	}
	test := strings.HasSuffix(file, "_test.go")
	if ours, ok := strings.CutPrefix(imported, module); ok {
		other, _, _ := strings.Cut(ours, "/")
		if other == folder || contains(allowed, other) || test && other == "testkit" {
			return ""
		}
		return fmt.Sprintf("%s: %s may not import %s", file, folder, other)
	}
	for library, folders := range p.libraries {
		if strings.HasPrefix(imported+"/", library+"/") && !test && !contains(folders, folder) {
			return fmt.Sprintf("%s: %s may not import %s", file, folder, library)
		}
	}
	return ""
}

func contains(names, name string) bool { return slices.Contains(strings.Fields(names), name) }

// imports calls see for each import of each file below root. Folders with a go.mod of
// their own are other modules.
func imports(root fs.FS, see func(file, imported string)) error {
	return sources(root, parser.ImportsOnly, func(file string, parsed *ast.File) error {
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			see(file, imported)
		}
		return nil
	})
}

// sources calls see for each file of Go in the folders below root, but in those that are other modules.
func sources(root fs.FS, mode parser.Mode, see func(file string, parsed *ast.File) error) error {
	return fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, err := fs.Stat(root, path.Join(file, "go.mod"))
			hidden := strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || file == "bin"
			if file != "." && (hidden || !errors.Is(err, fs.ErrNotExist)) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(file) != ".go" || path.Dir(file) == "." {
			return nil
		}
		source, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, mode)
		if err != nil {
			return err
		}
		return see(file, parsed)
	})
}

// The direction of imports is what keeps the top-level folders apart (Design 1).
func TestDirectionOfImports(t *testing.T) {
	p, seen := folders(), map[string]bool{}
	err := imports(os.DirFS("."), func(file, imported string) {
		folder, _, _ := strings.Cut(file, "/")
		seen[folder] = true
		if wrong := p.violation(file, imported); wrong != "" {
			t.Error(wrong)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder := range p.folders {
		if !seen[folder] {
			t.Errorf("the layout has a folder %s that imports nothing, not even the standard library: is it gone?", folder)
		}
	}
}

// There is one engine, Helm's library, one version of it, and one folder that imports it (H17).
func TestOneEngine(t *testing.T) {
	gomod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var engines, users []string
	for line := range strings.Lines(string(gomod)) {
		if name, _, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "require ")), " "); ok && strings.Contains(name, "helm") {
			engines = append(engines, name)
		}
	}
	if len(engines) != 1 || !strings.HasPrefix(engines[0], "helm.sh/helm/") {
		t.Errorf("go.mod names %q, want Helm's library alone", engines)
	}
	err = imports(os.DirFS("."), func(file, imported string) {
		folder, _, _ := strings.Cut(file, "/")
		if strings.HasPrefix(imported, "helm.sh/") && !strings.HasSuffix(file, "_test.go") && !slices.Contains(users, folder) {
			users = append(users, folder)
		}
	})
	if err != nil || !slices.Equal(users, []string{"helm"}) {
		t.Errorf("Helm's library is imported by %q, want helm alone; %v", users, err)
	}
}

// Each forbidden import is reported, and no allowed one.
func TestViolation(t *testing.T) {
	p := layout{
		folders:   map[string]string{"app": "store", "store": "", "testkit": "app"},
		libraries: map[string]string{"example.org/sql": "app"},
	}
	for _, c := range []struct{ file, imported, want string }{
		{"app/main.go", "addon-operator/store", ""},
		{"app/http/server.go", "addon-operator/app", ""},
		{"app/main.go", "addon-operator/store/disk", ""},
		{"app/main.go", "fmt", ""},
		{"app/main.go", "example.org/sql/driver", ""},
		{"app/main_test.go", "addon-operator/testkit/fakes", ""},
		{"store/disk_test.go", "example.org/sql", ""},
		{"store/disk.go", "example.org/sqlite", ""},
		{"store/disk.go", "addon-operator/app", "store/disk.go: store may not import app"},
		{"store/disk_test.go", "addon-operator/app", "store/disk_test.go: store may not import app"},
		{"app/main.go", "addon-operator/testkit", "app/main.go: app may not import testkit"},
		{"store/disk.go", "example.org/sql", "store/disk.go: store may not import example.org/sql"},
		{"store/disk.go", "example.org/sql/driver", "store/disk.go: store may not import example.org/sql"},
		{"other/file.go", "fmt", "other/file.go: the folder other is not in the layout"},
	} {
		if got := p.violation(c.file, c.imported); got != c.want {
			t.Errorf("%s imports %s: got %q, want %q", c.file, c.imported, got, c.want)
		}
	}
}

// Packages that may import less than their folder: of what is in the folder only what is named. What runs do, decisions
// and plans compile without the library of actors; no actor imports another one, so that they know only each other's
// messages; and no message knows how it is shown.
func TestWallsInFolders(t *testing.T) {
	const library = " github.com/asynkron/protoactor-go "
	walls := map[string]string{
		"actors/configmap":        "actors/decide actors/shared actors/work addons hooks kube messages supervisor values" + library,
		"actors/converge":         "actors/decide actors/shared actors/work addons hooks kube messages supervisor values" + library,
		"actors/healer":           "actors/decide actors/shared actors/work helm kube messages" + library,
		"actors/moduleobjects":    "actors/objects actors/shared actors/work addons kube messages values" + library,
		"actors/modules":          "actors/shared actors/work addons helm hooks kube messages supervisor values" + library,
		"actors/monitors":         "actors/shared actors/work hooks kube messages" + library,
		"actors/queues":           "actors/metrics actors/shared actors/work hooks messages" + library,
		"actors/schedules":        "actors/shared hooks messages" + library,
		"actors/scenario/match":   "hooks values",
		"actors/scenario/standin": "actors/scenario/match supervisor values",
		"actors/shared":           "actors/plan actors/work addons helm hooks kube messages supervisor values" + library,
		"actors/check":            "actors/decide actors/plan addons helm/charts hooks values",
		"actors/decide":           "addons helm/charts hooks values",
		"actors/plan":             "actors/decide addons helm hooks messages values",
		"actors/work":             "actors/decide actors/metrics actors/plan addons helm hooks kube messages supervisor values go.opentelemetry.io/otel",
		"actors/objects":          "hooks kube messages values",
		"messages":                "hooks values",
		"messages/view":           "hooks messages values",
	}
	seen := map[string]bool{}
	err := imports(os.DirFS("."), func(file, imported string) {
		dir := path.Dir(file)
		allowed, walled := walls[dir]
		if !walled || strings.HasSuffix(file, "_test.go") {
			return
		}
		seen[dir] = true
		ours, isOurs := strings.CutPrefix(imported, module)
		folder, _, _ := strings.Cut(ours, "/")
		if isOurs && !contains(allowed, ours) && !contains(allowed, folder) {
			t.Errorf("%s: %s may not import %s", file, dir, ours)
		}
		for library := range folders().libraries {
			if strings.HasPrefix(imported+"/", library+"/") && !contains(allowed, library) {
				t.Errorf("%s: %s may not import %s", file, dir, imported)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range walls {
		if !seen[dir] {
			t.Errorf("there is no package %s", dir)
		}
	}
}

// A package that imports nearly everything, or lies at the end of a long chain, is one that every change reaches. The
// limits are the figures of today. Package actors puts all actors together, and has a limit of its own.
func TestReachOfPackages(t *testing.T) {
	const widest, together, deepest = 17, 21, 12
	direct := map[string]map[string]bool{}
	err := imports(os.DirFS("."), func(file, imported string) {
		ours, isOurs := strings.CutPrefix(imported, module)
		if !isOurs || strings.HasSuffix(file, "_test.go") {
			return
		}
		dir := path.Dir(file)
		if direct[dir] == nil {
			direct[dir] = map[string]bool{}
		}
		direct[dir][ours] = true
	})
	if err != nil {
		t.Fatal(err)
	}
	depths := map[string]int{}
	var depth func(dir string) int
	depth = func(dir string) int {
		if depths[dir] == 0 {
			below := 0
			for other := range direct[dir] {
				below = max(below, depth(other))
			}
			depths[dir] = below + 1
		}
		return depths[dir]
	}
	for dir, others := range direct {
		limit := widest
		if dir == "actors" {
			limit = together
		}
		if len(others) > limit {
			t.Errorf("%s imports %d packages of ours, more than %d", dir, len(others), limit)
		}
		if d := depth(dir); d > deepest {
			t.Errorf("%s lies on top of a chain of %d imports, more than %d", dir, d, deepest)
		}
	}
}

// A type with more methods than a reader remembers is several types.
func TestMethodsOfTypes(t *testing.T) {
	const most = 25
	methods := map[string]int{}
	err := sources(os.DirFS("."), parser.SkipObjectResolution, func(file string, parsed *ast.File) error {
		if strings.HasSuffix(file, "_test.go") {
			return nil
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				receiver, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*"), "[")
				methods[path.Dir(file)+"."+receiver]++
			}
		}
		return nil
	})
	if err != nil || len(methods) == 0 {
		t.Fatalf("%d types, %v", len(methods), err)
	}
	for name, n := range methods {
		if n > most {
			t.Errorf("%s has %d methods, more than %d", name, n, most)
		}
	}
}
