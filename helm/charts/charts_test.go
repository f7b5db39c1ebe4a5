package charts

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// moduleOf writes the files of a txtar archive into a directory.
func moduleOf(t *testing.T, name, archive string) Module {
	t.Helper()
	m := Module{Name: name, Key: name, Dir: t.TempDir()}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		write(t, m, f.Name, string(f.Data))
	}
	return m
}

func write(t *testing.T, m Module, name, text string) {
	t.Helper()
	path := filepath.Join(m.Dir, filepath.FromSlash(name))
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// A17: Chart.yaml or a templates directory makes a chart.
func TestExists(t *testing.T) {
	for _, tt := range []struct {
		name, files string
		want        bool
	}{
		{"Chart.yaml", "-- Chart.yaml --\n", true},
		{"templates only", "-- templates/a.yaml --\n", true},
		{"hooks only", "-- hooks/a --\n-- values.yaml --\n", false},
		{"a file named templates", "-- templates --\n", false},
		{"a directory named Chart.yaml", "-- Chart.yaml/a --\n", false},
		{"nothing", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Exists(moduleOf(t, "m", tt.files).Dir); got != tt.want {
				t.Errorf("Exists = %v, want %v", got, tt.want)
			}
		})
	}
	if Exists(filepath.Join(t.TempDir(), "missing")) {
		t.Error("a missing directory has a chart")
	}
}

// A17: a synthesised chart has the module's name, a fixed version, and nothing
// of the directories that belong to the module and not to its chart.
func TestLoadSynthesised(t *testing.T) {
	m := moduleOf(t, "some-module", `
-- .helmignore --
ignored*
-- templates/deep/a.yaml --
-- files/data.txt --
-- ignored.txt --
-- lib/x --
-- hooks/deep/x --
-- images/x --
-- docs/x --
-- crds/x.yaml --
-- charts/sub/Chart.yaml --
{apiVersion: v2, name: sub, version: 0.1.0}
-- enabled --
`)
	write(t, m, "templates/deep/a.yaml", "\ufeff# a byte order mark is no text")
	loaded, err := Read(m)
	must(t, err)
	if loaded.Name() != "some-module" || loaded.Metadata.Version != "0.2.0" {
		t.Errorf("chart %s %s", loaded.Name(), loaded.Metadata.Version)
	}
	if got := names(loaded.Templates); !slices.Equal(got, []string{"templates/deep/a.yaml"}) {
		t.Errorf("templates = %v", got)
	}
	if got := string(loaded.Templates[0].Data); !strings.HasPrefix(got, "# a") {
		t.Errorf("the template begins with %q", got)
	}
	if got := names(loaded.Files); !slices.Equal(got, []string{".helmignore", "enabled", "files/data.txt"}) {
		t.Errorf("files = %v", got)
	}
	if len(loaded.Dependencies()) != 1 {
		t.Errorf("subcharts = %v", loaded.Dependencies())
	}
}

func names(files []*chart.File) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.Name)
	}
	slices.Sort(out)
	return out
}

// H2: the own section and flag leave the defaults, everything else stays.
func TestLoadStripsOwnSection(t *testing.T) {
	m := moduleOf(t, "m", `
-- values.yaml --
m: {removed: value}
mEnabled: true
sub: {word: stays}
global: {zone: stays}
otherEnabled: true
-- templates/a.yaml --
`)
	loaded, err := new(Cache).Load(m)
	must(t, err)
	want := map[string]any{"sub": map[string]any{"word": "stays"}, "global": map[string]any{"zone": "stays"}, "otherEnabled": true}
	if !reflect.DeepEqual(loaded.chart.Values, want) {
		t.Errorf("values = %v, want %v", loaded.chart.Values, want)
	}
}

// A loaded chart is kept until a file changes, and its use does not change it.
func TestChartCache(t *testing.T) {
	var cache Cache
	m := moduleOf(t, "parent", `
-- Chart.yaml --
apiVersion: v2
name: parent
version: 0.1.0
dependencies:
- {name: here, version: 0.1.0}
- {name: away, version: 0.1.0, condition: away.enabled}
-- charts/here/Chart.yaml --
{apiVersion: v2, name: here, version: 0.1.0}
-- charts/here/values.yaml --
word: given
-- charts/away/Chart.yaml --
{apiVersion: v2, name: away, version: 0.1.0}
-- values.yaml --
away: {enabled: false}
`)
	first, err := cache.Load(m)
	must(t, err)
	for range 2 {
		use := first.Copy()
		must(t, chartutil.ProcessDependenciesWithMerge(use, map[string]any{}))
		if n := len(use.Dependencies()); n != 1 {
			t.Errorf("%d subcharts are enabled, want 1", n)
		}
		use.Dependencies()[0].Values["word"] = "changed"
	}
	if n := len(first.chart.Dependencies()); n != 2 {
		t.Errorf("the cached chart has %d subcharts, want 2", n)
	}
	if again, _ := cache.Load(m); again != first {
		t.Error("loaded again although nothing changed")
	}
	write(t, m, "templates/new.yaml", "# new")
	second, err := cache.Load(m)
	if err != nil || second == first {
		t.Fatalf("a new file is not seen: %v", err)
	}
	must(t, os.Remove(filepath.Join(m.Dir, "templates/new.yaml")))
	if third, err := cache.Load(m); err != nil || third == second {
		t.Errorf("a removed file is not seen: %v", err)
	}
}

// P8: what is on disk is used for the files of the module that allow it, and for no others; of those that are refused
// the chart is that of before.
func TestChartOfVersion(t *testing.T) {
	m := moduleOf(t, "m", "-- Chart.yaml --\napiVersion: v2\nname: m\nversion: 0.0.1\n")
	refusal := errors.New("of another version")
	allow := func() error { return nil }
	refuse := func() error { return refusal }
	var cache Cache
	version := func(number byte, current func() error) (string, error) {
		asked := m
		asked.Files, asked.Current = string(number), current
		c, err := cache.Load(asked)
		if err != nil {
			return "", err
		}
		return c.Metadata().Version, nil
	}
	expect := func(number byte, current func() error, want string, wantErr error) {
		t.Helper()
		if got, err := version(number, current); got != want || !errors.Is(err, wantErr) {
			t.Errorf("version %d: chart %q, error %v; wanted %q, %v", number, got, err, want, wantErr)
		}
	}
	expect(1, refuse, "", refusal)
	expect(1, allow, "0.0.1", nil)
	write(t, m, "Chart.yaml", "apiVersion: v2\nname: m\nversion: 0.0.22\n")
	expect(1, refuse, "", refusal)
	expect(1, func() error { return ErrRefused }, "0.0.1", nil)
	expect(2, refuse, "", refusal)
	expect(2, allow, "0.0.22", nil)
	must(t, os.RemoveAll(m.Dir))
	expect(2, func() error { return ErrRefused }, "0.0.22", nil)
}

// Module directories mounted from a ConfigMap consist of symbolic links.
func TestLoadSymlinks(t *testing.T) {
	chart := moduleOf(t, "real", "-- templates/a.yaml --\n# a\n")
	m := moduleOf(t, "m", "")
	must(t, os.Symlink(filepath.Join(chart.Dir, "templates"), filepath.Join(m.Dir, "templates")))
	if err := os.Symlink("nowhere", filepath.Join(m.Dir, ".#lock")); err != nil { // of an editor
		t.Fatal(err)
	}
	var cache Cache
	first, err := cache.Load(m)
	if err != nil || !slices.Equal(names(first.chart.Templates), []string{"templates/a.yaml"}) {
		t.Fatalf("templates = %v, %v", first, err)
	}
	write(t, chart, "templates/a.yaml", "# changed")
	if second, _ := cache.Load(m); second == first {
		t.Error("a change behind a link is not seen")
	}
	must(t, os.Symlink(m.Dir, filepath.Join(m.Dir, "loop")))
	if _, err := cache.Load(m); err == nil {
		t.Error("a link that points upwards is no error")
	}
	must(t, errors.Join(os.Remove(filepath.Join(m.Dir, "loop")), os.Symlink("nowhere", filepath.Join(m.Dir, "dangling"))))
	if _, err := cache.Load(m); err == nil || !strings.Contains(err.Error(), "dangling is neither a regular file nor a link to one") { // P8
		t.Errorf("a link to nothing: %v", err)
	}
}

// M1: the definitions of subcharts are those of the ones that values enable, at any depth, packed or not.
func TestSubchartCRDs(t *testing.T) {
	m := moduleOf(t, "parent", `
-- Chart.yaml --
apiVersion: v2
name: parent
version: 0.1.0
dependencies:
- {name: child, version: 0.1.0, condition: child.enabled}
- {name: packed, version: 0.1.0, alias: other}
-- values.yaml --
child: {enabled: false}
-- crds/own.yaml --
-- charts/child/Chart.yaml --
{apiVersion: v2, name: child, version: 0.1.0}
-- charts/child/crds/deep/a.yaml --
a
-- charts/child/crds/README.md --
-- charts/child/charts/grandchild/Chart.yaml --
{apiVersion: v2, name: grandchild, version: 0.1.0}
-- charts/child/charts/grandchild/crds/b.yml --
b
-- charts/child/charts/grandchild/crds/c.json --
{}
`)
	packed := moduleOf(t, "packed", "-- Chart.yaml --\n{apiVersion: v2, name: packed, version: 0.1.0}\n-- crds/c.yaml --\nc\n")
	ch, err := Read(packed)
	must(t, err)
	_, err = chartutil.Save(ch, filepath.Join(m.Dir, "charts"))
	must(t, err)
	loaded, err := new(Cache).Load(m)
	must(t, err)
	for enabled, want := range map[bool][]string{
		false: {"charts/other/crds/c.yaml"},
		true:  {"charts/child/charts/grandchild/crds/b.yml", "charts/child/charts/grandchild/crds/c.json", "charts/child/crds/deep/a.yaml", "charts/other/crds/c.yaml"},
	} {
		files, err := loaded.SubchartCRDs(map[string]any{"child": map[string]any{"enabled": enabled}})
		must(t, err)
		var got []string
		for _, f := range files {
			got = append(got, f.Name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("enabled %v: %q, want %q", enabled, got, want)
		}
	}
}

// H21: a declared dependency that is not in charts/ is refused, as Helm does, enabled or not, and only at the top.
func TestMissingDependencies(t *testing.T) {
	const sub = "-- charts/sub/Chart.yaml --\n{apiVersion: v2, name: sub, version: 0.1.0"
	for name, c := range map[string]struct{ files, want string }{
		"there":             {"-- Chart.yaml --\n{apiVersion: v2, name: m, version: 0.1.0, dependencies: [{name: sub, alias: other, version: 0.1.0}]}\n" + sub + "}\n", ""},
		"another version":   {"-- Chart.yaml --\n{apiVersion: v2, name: m, version: 0.1.0, dependencies: [{name: sub, version: 9.9.9}]}\n" + sub + "}\n", ""},
		"of the subchart":   {"-- Chart.yaml --\n{apiVersion: v2, name: m, version: 0.1.0}\n" + sub + ", dependencies: [{name: redis, version: 1.0.0}]}\n", ""},
		"without charts":    {"-- Chart.yaml --\n{apiVersion: v2, name: m, version: 0.1.0, dependencies: [{name: sub, version: 0.1.0}]}\n", "Chart.yaml declares the dependency sub, which is not in charts/; run 'helm dependency build DIR'"},
		"switched off":      {"-- Chart.yaml --\n{apiVersion: v2, name: m, version: 0.1.0, dependencies: [{name: redis, version: 0.1.0, condition: redis.enabled}, {name: sub}, {name: kafka}, {name: kafka, alias: b}]}\n-- values.yaml --\nredis: {enabled: false}\n" + sub + "}\n", "Chart.yaml declares the dependency kafka, redis, which is not in charts/"},
		"of a chart of old": {"-- Chart.yaml --\n{apiVersion: v1, name: m, version: 0.1.0}\n-- requirements.yaml --\ndependencies: [{name: sub, version: 0.1.0}]\n", "requirements.yaml declares the dependency sub"},
	} {
		t.Run(name, func(t *testing.T) {
			m := moduleOf(t, "m", c.files)
			_, err := new(Cache).Load(m)
			if err == nil && c.want != "" || err != nil && (c.want == "" || !strings.Contains(strings.ReplaceAll(err.Error(), m.Dir, "DIR"), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err == nil {
				return
			}
			loaded, loadErr := Read(m) // Helm agrees
			if loadErr != nil || action.CheckDependencies(loaded, loaded.Metadata.Dependencies) == nil {
				t.Errorf("Helm would take it: %v", loadErr)
			}
		})
	}
}

// A file that Helm would not read is named with its limit, before any of the chart is read; one that is no part of
// the chart may be larger.
func TestLargeFile(t *testing.T) {
	for ignore, want := range map[string]string{"": "files/data.bin has more than 5 MiB, Helm's limit for a file of a chart; list it in .helmignore", "files/": ""} {
		m := moduleOf(t, "web", "-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n")
		write(t, m, "chart/files/data.bin", strings.Repeat("x", 5<<20+1))
		write(t, m, "chart/.helmignore", ignore+"\n")
		_, err := new(Cache).Load(m)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("with %q in .helmignore: %v", ignore, err)
		}
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
