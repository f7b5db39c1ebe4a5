package addons_test

import (
	"strings"
	"testing"

	"addon-operator/addons"
)

const innerChart = "modules/010-web-app/chart/Chart.yaml"

// A21: module.yaml is read strictly, and all mistakes are named with the fix.
func TestModuleFile(t *testing.T) {
	tree, _ := load(t, map[string]string{
		innerChart:                        "",
		"modules/010-web-app/module.yaml": "namespace: web\nwaitFor: [plain]\nchart: {repository: 'https://charts.example.com', name: web, version: 1.2.3, digest: 'sha256:0'}\n",
		"modules/020-plain/module.yaml":   "# nothing yet\n",
	})
	want := addons.ModuleFile{Namespace: "web", Waits: true, Chart: addons.ChartSource{Repository: "https://charts.example.com", Name: "web", Version: "1.2.3", Digest: "sha256:0"}}
	if got := module(t, tree, "web-app").File; got != want {
		t.Errorf("got %+v", got)
	}
	if got := module(t, tree, "plain").File; got != (addons.ModuleFile{}) {
		t.Errorf("an empty file says %+v", got)
	}
	for content, wants := range map[string][]string{
		"namspace: web":                       {"namspace is not a known key; did you mean namespace?"},
		"releases: 1":                         {"releases is not a known key; known are chart, namespace"},
		"chart: {Version: '1', namo: a}":      {"chart.Version is not a known key; did you mean version?", "chart.namo is not a known key; did you mean name?"},
		"namespace: 5\nchart: {version: 1.0}": {"namespace must be a string, is an integer", "chart.version must be a string, is "},
		"namespace: My_Web":                   {`namespace must match the pattern ^[a-z0-9]`, `is "My_Web"`},
		"namespace: ''":                       {"namespace must match the pattern"},
		"chart: web":                          {"chart must be a map, is a string"},
		"- namespace":                         {"the file must be a map, is a list"},
		"namespace: [":                        {"line 1"},
	} {
		got := loadError(t, map[string]string{innerChart: "", "modules/010-web-app/module.yaml": content})
		for _, part := range append(wants, "010-web-app/module.yaml: ") {
			if !strings.Contains(got, part) {
				t.Errorf("%q: got %q, want %q", content, got, part)
			}
		}
	}
}

// A20: a module has one chart, and a whole one.
func TestTwoCharts(t *testing.T) {
	for _, name := range []string{"Chart.yaml", "templates/a.yaml", "crds/a.yaml", "charts/a.tgz"} {
		got := loadError(t, map[string]string{innerChart: "", "modules/010-web-app/" + name: ""})
		top, _, _ := strings.Cut(name, "/")
		if !strings.Contains(got, "010-web-app/"+top+" is not used, because the chart of the module is in 010-web-app/chart; ") || !strings.Contains(got, "remove it") {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := loadError(t, map[string]string{"modules/010-web-app/chart/": ""}); !strings.Contains(got, "chart is the directory of an unchanged chart, but it has no Chart.yaml") {
		t.Errorf("an empty chart/: %q", got)
	}
	if got := loadError(t, map[string]string{"modules/010-web-app/module.yaml": "chart: {name: web}"}); !strings.Contains(got, "restore the chart") {
		t.Errorf("chart/ is gone: %q", got)
	}
	tree, _ := load(t, map[string]string{"modules/010-web-app/templates/a.yaml": "", "modules/010-web-app/chart/a.png": ""})
	if path, _ := module(t, tree, "web-app").Defaults(); path != "" {
		t.Errorf("a directory of a chart counts as chart/: %s", path)
	}
}

// A20: keys of values.yaml that no one reads are named, with where they belong.
func TestUnreadValues(t *testing.T) {
	tree, _ := load(t, map[string]string{
		innerChart:                        "",
		"modules/010-web-app/values.yaml": "webApp: {a: 1}\nwebAppEnabled: true\nwebAppMaintenance: ''\nglobal: {a: 1}\nreplicaCount: 3\nweb-app: {b: 1}\nwebapp: {}\nwebApEnabled: true\n",
	})
	const lies = " is not read, because the chart of the module is in chart/; "
	expectWarnings(t, tree, "010-web-app/values.yaml: key replicaCount"+lies+"the values of the chart belong under webApp; move it there",
		"key web-app"+lies+"did you mean webApp?", "key webApEnabled"+lies+"did you mean webAppEnabled?", "key webapp"+lies+"did you mean webApp?")
	if got := len(module(t, tree, "web-app").Problems()); got != 4 {
		t.Errorf("%d problems, want 4", got)
	}
}

// A20: the values of the chart are read when somebody asks.
func TestDefaultsOfChart(t *testing.T) {
	tree, root := load(t, map[string]string{innerChart: ""})
	shown, read := module(t, tree, "web-app").Defaults()
	if want := "010-web-app/chart/values.yaml"; shown != want {
		t.Errorf("the file is called %s, want %s", shown, want)
	}
	if got, err := read(); err != nil || got != nil {
		t.Errorf("without a values.yaml: %v, %v", got, err)
	}
	write(t, root, "modules/010-web-app/chart/values.yaml", "a: [")
	if _, err := read(); err == nil || !strings.Contains(err.Error(), shown) {
		t.Errorf("a broken values.yaml: %v", err)
	}
	write(t, root, "modules/010-web-app/chart/values.yaml", "a: 1\n")
	if got, err := read(); err != nil || got.(map[string]any)["a"] != int64(1) {
		t.Errorf("got %v, %v", got, err)
	}
}

// H1, J12: a chart that can never be installed is a problem of its module; without a chart there is nothing to install.
func TestChartsThatCannotBeInstalled(t *testing.T) {
	tree, _ := load(t, map[string]string{
		"modules/010-lib/Chart.yaml":         "apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n",
		"modules/020-inner/chart/Chart.yaml": "apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n",
		"modules/030-app/Chart.yaml":         "apiVersion: v2\nname: app\nversion: 1.0.0\ntype: application\n",
	})
	want := map[string]string{"lib": "010-lib/Chart.yaml has type library", "inner": "020-inner/chart/Chart.yaml has type library"}
	for _, m := range tree.Modules {
		problems := strings.Join(m.Problems(), "; ")
		if !strings.Contains(problems, want[m.Name]) || (problems == "") != (want[m.Name] == "") {
			t.Errorf("module %s: %q, want %q", m.Name, problems, want[m.Name])
		}
	}
}
