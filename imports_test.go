// Package addonoperator_test checks the repository itself: which package may import which, what is cited, and how
// large it is.
package addonoperator_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	module     = "addon-operator/"
	all        = "actors messages supervisor values hooks addons kube helm server"
	protoactor = " github.com/asynkron/protoactor-go "
	clientGo   = " k8s.io/client-go "
	helm       = " helm.sh/helm "
	telemetry  = " go.opentelemetry.io/otel "
	gojq       = " github.com/itchyny/gojq "
)

// mayImport says what a folder may import of ours and of these five libraries (Design 1): of ours a package, or a
// folder with all that is below. A folder at the top may import what is in it; one below only what is named:
// decisions and plans compile without the library of actors, and no message knows how it is shown. There is one
// engine, Helm's library, in one folder (H17).
func mayImport() map[string]string {
	return map[string]string{
		"values":     "",
		"jq":         gojq,
		"kube":       "values jq" + clientGo,
		"helm":       clientGo + helm,
		"supervisor": protoactor,
		"hooks":      "values jq",
		"addons":     "values helm/charts",
		"messages":   "values hooks",
		"actors":     "messages supervisor values hooks addons kube helm" + protoactor + telemetry,
		"server":     "actors/plan hooks messages supervisor values",
		"testkit":    all + " deploy" + protoactor + clientGo,
		"examples":   "",
		"deploy":     "",
		"cmd":        all + " deploy" + telemetry,

		"actors/plan":   "addons helm hooks messages values",
		"messages/view": "hooks messages values",
	}
}

// sources calls see for each file of Go in the folders of this module, with what it imports.
func sources(t *testing.T, see func(file string, parsed *ast.File, imports []string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, err := os.Stat(path.Join(file, "go.mod"))
			hidden := strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || file == "bin"
			if file != "." && (hidden || !errors.Is(err, fs.ErrNotExist)) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(file) != ".go" || path.Dir(file) == "." {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		var imports []string
		for _, spec := range parsed.Imports {
			imports = append(imports, strings.Trim(spec.Path.Value, `"`))
		}
		see(file, parsed, imports)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The direction of imports is what keeps folders apart. Tests may use testkit, and the libraries that what they test
// is made of; those of helm watch by package kube.
func TestWalls(t *testing.T) {
	walls, seen := mayImport(), map[string]bool{}
	sources(t, func(file string, _ *ast.File, imports []string) {
		top, _, _ := strings.Cut(file, "/")
		dir, test := path.Dir(file), strings.HasSuffix(file, "_test.go")
		if _, walled := walls[dir]; !walled || test {
			dir = top
		}
		list, known := walls[dir]
		if allowed := strings.Fields(list); known {
			seen[dir] = true
			for _, imported := range imports {
				ours, isOurs := strings.CutPrefix(imported, module)
				folder, _, _ := strings.Cut(ours, "/")
				own := folder == top && dir == top || test && (folder == "testkit" || top == "helm" && folder == "kube")
				if isOurs && !own && !slices.Contains(allowed, ours) && !slices.Contains(allowed, folder) {
					t.Errorf("%s: %s may not import %s", file, dir, ours)
				}
				for _, library := range strings.Fields(protoactor + clientGo + helm + telemetry + gojq) {
					if strings.HasPrefix(imported+"/", library+"/") && !test && !slices.Contains(allowed, library) {
						t.Errorf("%s: %s may not import %s", file, dir, imported)
					}
				}
			}
			return
		}
		t.Errorf("%s: say what the folder %s may import", file, dir)
	})
	for dir := range walls {
		if !seen[dir] && dir != "examples" {
			t.Errorf("there is no folder %s", dir)
		}
	}
}

// A reader follows an event through few packages, and none of them needs all others. Test files do not count.
func TestChainsOfImportsAreShort(t *testing.T) {
	const longest, most = 8, 13
	of := map[string]map[string]bool{}
	sources(t, func(file string, _ *ast.File, imports []string) {
		dir := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		if of[dir] == nil {
			of[dir] = map[string]bool{}
		}
		for _, imported := range imports {
			if ours, isOurs := strings.CutPrefix(imported, module); isOurs {
				of[dir][ours] = true
			}
		}
	})
	var chain func(dir string) []string
	chain = func(dir string) (below []string) {
		for imported := range of[dir] {
			if c := chain(imported); len(c) > len(below) {
				below = c
			}
		}
		return append([]string{dir}, below...)
	}
	for dir, imports := range of {
		if len(imports) > most {
			t.Errorf("%s imports %d packages of ours, more than %d", dir, len(imports), most)
		}
		if c := chain(dir); len(c) > longest {
			t.Errorf("a chain of %d imports, more than %d: %s", len(c), longest, strings.Join(c, " > "))
		}
	}
}
