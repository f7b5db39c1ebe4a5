package charts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/helm/charts"
)

// A19: errors name the files of a chart as the module names them, and not by the paths of this machine.
func TestErrorsNameShownPaths(t *testing.T) {
	const metadata = "apiVersion: v2\nname: web\nversion: 0.1.0\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a dependency is missing": {map[string]string{"Chart.yaml": metadata + "dependencies: [{name: db, version: 1.0.0}]\n"}, "load chart in 010-web: Chart.yaml declares the dependency db, which is not in charts/; run 'helm dependency build 010-web'"},
		"a broken template":       {map[string]string{"Chart.yaml": metadata, "templates/a.yaml": "{{"}, "template 010-web/templates/a.yaml:1: "},
		"a chart in chart/":       {map[string]string{"chart/Chart.yaml": "version: ["}, "load chart in 010-web/chart: "},
		"a wrong .helmignore":     {map[string]string{"Chart.yaml": metadata, ".helmignore": "a**b\n"}, "load chart in 010-web: read 010-web/.helmignore: "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range c.files {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := charts.Check(charts.Module{Name: "web", Key: "web", Dir: dir, Shown: "010-web"})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), dir) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
