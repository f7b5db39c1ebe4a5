package plan

import (
	"os"
	"path/filepath"
	"testing"

	"addon-operator/addons"
	"addon-operator/helm/charts"
)

// A20: package addons, which checks a module, and package charts, which loads its chart, agree where it lies.
func TestWhereTheChartLies(t *testing.T) {
	for name, files := range map[string][]string{
		"unchanged":             {"chart/Chart.yaml"},
		"the module":            {"Chart.yaml"},
		"templates and a chart": {"templates/a.yaml", "chart/a.png"},
		"Chart.yaml and chart":  {"Chart.yaml", "chart/a.png"},
		"hooks only":            {"hooks/a.txt"},
		"nothing":               nil,
	} {
		t.Run(name, func(t *testing.T) {
			root, global := t.TempDir(), t.TempDir()
			dir := filepath.Join(root, "010-web")
			for _, file := range append(files, "README.md") {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			tree, err := addons.Load(addons.Dirs{Modules: []string{root}, Global: global})
			if err != nil {
				t.Fatal(err)
			}
			path, _ := tree.Modules[0].Defaults()
			if inner := charts.Root(dir) != dir; inner != (path != "") {
				t.Errorf("the chart is loaded from %s, its values from %q", charts.Root(dir), path)
			}
		})
	}
}
