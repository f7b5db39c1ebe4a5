package charts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A17, A20: a chart lies in chart/ or is the module.
func TestRoot(t *testing.T) {
	for name, c := range map[string]struct{ files, want string }{
		"the module itself":                  {"-- Chart.yaml --\n-- values.yaml --\n", ""},
		"templates only":                     {"-- templates/a.yaml --\n", ""},
		"no chart":                           {"-- hooks/a --\n", ""},
		"unchanged":                          {"-- chart/Chart.yaml --\n-- values.yaml --\n", "chart"},
		"incomplete":                         {"-- chart/values.yaml --\n", "chart"},
		"a directory of the module's chart":  {"-- Chart.yaml --\n-- chart/a.txt --\n", ""},
		"a directory of templates only":      {"-- templates/a.yaml --\n-- chart/a.txt --\n", ""},
		"a file":                             {"-- chart --\n", ""},
		"two charts, refused by who loads":   {"-- Chart.yaml --\n-- chart/Chart.yaml --\n", "chart"},
		"Chart.yaml of chart/ is no file":    {"-- templates/a.yaml --\n-- chart/Chart.yaml/a --\n", ""},
		"only the own Chart.yaml is no file": {"-- Chart.yaml/a --\n-- chart/a --\n", "chart"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := moduleOf(t, "m", c.files).Dir
			if got, want := Root(dir), filepath.Join(dir, c.want); got != want {
				t.Errorf("Root = %s, want %s", got, want)
			}
			if got := CRDs(dir); got != filepath.Join(dir, c.want, "crds") {
				t.Errorf("CRDs = %s", got)
			}
			if c.want != "" && !Exists(dir) {
				t.Error("it counts as a module without a chart")
			}
		})
	}
}

// A20: the section is the top level of the values; global is shared, and what the section says of it wins.
func TestValuesOfChartInside(t *testing.T) {
	m := moduleOf(t, "web-app", "-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n-- chart/values.yaml --\nwebApp: {of: the chart}\nreplicas: 1\n")
	m.Key = "webApp"
	cache := &Cache{}
	loaded, err := cache.Load(m)
	must(t, err)
	if got := loaded.Copy().Values["webApp"]; got == nil {
		t.Error("a value of the chart that is called like the section is gone")
	}
	type tree = map[string]any
	for name, c := range map[string]struct {
		merged any
		global any
		want   tree
		err    string
	}{
		"section and global":    {tree{"a": int64(1), "b": nil}, tree{"x": tree{"y": int64(2)}}, tree{"a": 1.0, "b": nil, "global": tree{"x": tree{"y": 2.0}}}, ""},
		"the section wins":      {tree{"global": tree{"x": tree{"y": "own"}}}, tree{"x": tree{"y": "shared", "z": true}}, tree{"global": tree{"x": tree{"y": "own", "z": true}}}, ""},
		"an empty global":       {tree{"a": "b"}, tree{}, tree{"a": "b"}, ""},
		"no section":            {nil, tree{"x": "y"}, tree{"global": tree{"x": "y"}}, ""},
		"large numbers":         {tree{"a": int64(5_000_000), "b": []any{int64(1)}, "c": json.Number("18446744073709551616")}, nil, tree{"a": 5e6, "b": []any{1.0}, "c": 0x1p64}, ""},
		"beyond a float64":      {tree{"a": json.Number(strings.Repeat("9", 400))}, nil, nil, "float64"},
		"the section is a list": {[]any{"a"}, nil, nil, "are a map; the section webApp is a list"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := loaded.Values(tree{"webApp": c.merged, "global": c.global, "other": tree{"not": "ours"}})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// A20: what the values.yaml of the module says of global lies over the chart's own, and is read again when it changes.
func TestGlobalBesideChart(t *testing.T) {
	m := moduleOf(t, "web", "-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n-- chart/values.yaml --\nglobal: {a: 1, b: 1}\n")
	cache := &Cache{}
	load := func() (*Chart, any) {
		t.Helper()
		loaded, err := cache.Load(m)
		must(t, err)
		return loaded, loaded.Copy().Values["global"]
	}
	first, got := load()
	if !reflect.DeepEqual(got, map[string]any{"a": 1.0, "b": 1.0}) {
		t.Errorf("global of the chart alone: %v", got)
	}
	if same, _ := load(); same != first {
		t.Error("nothing has changed, but the chart was loaded again")
	}
	write(t, m, "values.yaml", "web: {}\nglobal: {b: 2}\n")
	second, got := load()
	if !reflect.DeepEqual(got, map[string]any{"a": 1.0, "b": 2.0}) {
		t.Errorf("global with the module's: %v", got)
	}
	if first.Digest() == second.Digest() {
		t.Error("other values have the same digest")
	}
	write(t, m, "values.yaml", "global: [")
	if _, err := cache.Load(m); err == nil || !strings.Contains(err.Error(), filepath.Join(m.Dir, "values.yaml")) {
		t.Errorf("a broken values.yaml: %v", err)
	}
}

// A20, A17: what lies next to chart/ is no part of the chart.
func TestOnlyChartIsLoaded(t *testing.T) {
	m := moduleOf(t, "web", "-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n-- chart/crds/a.yaml --\n-- hooks/a --\n-- tests/a.yaml --\n-- openapi/values.yaml --\n")
	loaded, err := new(Cache).Load(m)
	must(t, err)
	for _, f := range loaded.Copy().Raw {
		if f.Name != "Chart.yaml" && f.Name != "crds/a.yaml" {
			t.Errorf("%s is part of the chart", f.Name)
		}
	}
	m = moduleOf(t, "web", "-- chart/values.yaml --\n")
	if _, err := new(Cache).Load(m); err == nil || !strings.Contains(err.Error(), "Chart.yaml") {
		t.Errorf("chart/ without Chart.yaml: %v", err)
	}
}

// M1: definitions lie anywhere below crds/, also behind links, as Helm follows them; hidden ones, other files, and
// what the .helmignore of a chart in chart/ names are not read. A module that is a chart may keep its crds/ from
// Helm.
func TestDefinitions(t *testing.T) {
	const files = "-- AT.helmignore --\ncrds/kustom*\ncrds/old/\n-- ATChart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n" +
		"-- ATcrds/a.yaml --\n-- ATcrds/kustomization.yaml --\n-- ATcrds/old/deep/b.YML --\n-- ATcrds/README.md --\n" +
		"-- ATcrds/..data/mounted.json --\n-- shared/v1/e.yaml --\n"
	for place, want := range map[string]string{
		"":       "a.yaml kustomization.yaml mounted.json old/deep/b.YML shared/v1/e.yaml",
		"chart/": "a.yaml mounted.json shared/v1/e.yaml",
	} {
		dir := moduleOf(t, "web", strings.ReplaceAll(files, "AT", place)).Dir
		must(t, os.Symlink("..data/mounted.json", filepath.Join(CRDs(dir), "mounted.json")))
		must(t, os.Symlink(filepath.Join(dir, "shared"), filepath.Join(CRDs(dir), "shared")))
		must(t, os.Symlink("nowhere", filepath.Join(CRDs(dir), "nothing")))
		found, err := Definitions(dir)
		must(t, err)
		var names []string
		for _, f := range found {
			names = append(names, strings.TrimPrefix(f.Name, "crds/"))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("in %q: %s, want %s", place, got, want)
		}
	}
	if found, err := Definitions(moduleOf(t, "none", "-- chart/Chart.yaml --\n").Dir); len(found) > 0 || err != nil {
		t.Errorf("without crds/: %v, %v", found, err)
	}
	all := moduleOf(t, "all", "-- chart/Chart.yaml --\n-- chart/.helmignore --\ncrds/\n-- chart/crds/a.yaml --\n")
	if found, err := Definitions(all.Dir); len(found) > 0 || err != nil {
		t.Errorf("crds/ in .helmignore: %v, %v", found, err)
	}
	up := moduleOf(t, "up", "-- crds/a.yaml --\n")
	must(t, os.Symlink("..", filepath.Join(CRDs(up.Dir), "up")))
	if _, err := Definitions(up.Dir); err == nil || !strings.Contains(err.Error(), "does a symbolic link point upwards?") {
		t.Errorf("a link upwards: %v", err)
	}
}
