package helm

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"addon-operator/helm/charts"
)

// newOffline is a client that needs no cluster.
func newOffline(t testing.TB) *Client {
	t.Helper()
	c, err := New(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Namespace: "default"})
	must(t, err)
	return c
}

// offline is an operation of it.
func offline(t testing.TB, c *Client) *operation {
	t.Helper()
	return &operation{
		ctx: t.Context(), home: c.root, release: "m", log: c.root.options.Log, capabilities: chartutil.DefaultCapabilities,
		transport: &boundTransport{ctx: t.Context(), next: c.root.transport},
	}
}

func renderOffline(t testing.TB, c *Client, m Module) (*rendered, error) {
	t.Helper()
	loaded, err := c.Charts().Load(m.chart())
	if err != nil {
		return nil, renderProblem(t.Context(), nil, m, err)
	}
	op := offline(t, c)
	r, err := c.root.renderer.render(op, m, loaded, false)
	if err != nil {
		return nil, renderProblem(t.Context(), op, m, err)
	}
	return r, nil
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// A chart that does not render names the template and what to do.
func TestRenderErrors(t *testing.T) {
	for _, tt := range []struct {
		name, files string
		want        []string
	}{
		{"template syntax", "-- templates/a.yaml --\na: b\nc: {{ if }}\n", []string{"m/templates/a.yaml:2"}},
		{"nil pointer", "-- templates/a.yaml --\n\n\n{{ .Values.no.such.key }}\n", []string{"m/templates/a.yaml:3", ".Values.no.such.key"}},
		{"required", "-- templates/a.yaml --\n{{ required \"set m.host\" .Values.m.host }}\n", []string{"m/templates/a.yaml:1", "set m.host"}},
		{"fail", "-- templates/a.yaml --\n{{ fail \"not on this cluster\" }}\n", []string{"m/templates/a.yaml", "not on this cluster"}},
		{"unknown helper", "-- templates/a.yaml --\n{{ include \"no.helper\" . }}\n", []string{"m/templates/a.yaml", "no.helper"}},
		{"YAML", "-- templates/a.yaml --\na: b\n c: d\n", []string{"m/templates/a.yaml", "line 2"}},
		{"plain text", "-- templates/a.yaml --\njust text\n", []string{"m/templates/a.yaml"}},
		{"list", "-- templates/a.yaml --\n- a\n", []string{"m/templates/a.yaml"}},
		{"all bad objects at once",
			"-- templates/a.yaml --\nkind: ConfigMap\nmetadata: {name: a}\n-- templates/b.yaml --\nkind: ConfigMap\napiVersion: v1\n-- templates/c.yaml --\nsecret: word\n",
			[]string{"m/templates/a.yaml: ConfigMap a has no apiVersion", "m/templates/b.yaml: ConfigMap has no metadata.name", "m/templates/c.yaml: a document has no kind"}},
		{"generateName", "-- templates/a.yaml --\nkind: Job\napiVersion: batch/v1\nmetadata: {generateName: a-}\n", []string{"metadata.name", "generateName"}},
		{"number as label", "-- templates/a.yaml --\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: a, labels: {a: 1}}\n", []string{"ConfigMap a: metadata.labels", "quote"}},
		{"duplicate", "-- templates/a.yaml --\n" + configMap + "-- templates/b.yaml --\n" + configMap, []string{"m/templates/b.yaml: ConfigMap a is already defined in m/templates/a.yaml"}},
		{"Kubernetes too old", "-- Chart.yaml --\napiVersion: v2\nname: m\nversion: 1.0.0\nkubeVersion: '>=9.0.0'\n", []string{"kubeVersion", ">=9.0.0"}},
		{"Chart.yaml", "-- Chart.yaml --\nversion: [\n", []string{"Chart.yaml"}},
		{"no version in Chart.yaml", "-- Chart.yaml --\napiVersion: v2\nname: m\n", []string{"chart.metadata.version"}},
		{"values.yaml", "-- values.yaml --\na: [\n-- templates/a.yaml --\n", []string{"values.yaml"}},
		{"values.schema.json", `-- values.schema.json --
{"properties":{"m":{"required":["host"]}}}
-- templates/a.yaml --
`, []string{"at '/m': missing property 'host'"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newOffline(t)
			m := moduleOf(t, "m", tt.files)
			_, err := renderOffline(t, c, m)
			var problem *Error
			if !errors.As(err, &problem) || problem.Kind != Render {
				t.Fatalf("error = %v, want kind %s", err, Render)
			}
			wantError(t, err, append(tt.want, "release m: chart in "+m.Dir)...)
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "word") {
				t.Errorf("error has several lines or shows content: %q", err)
			}
		})
	}
}

// H6: what changes a checksum, and what does not.
func TestRenderChecksum(t *testing.T) {
	c := newOffline(t)
	m := module(t, "simple").with("text", "one")
	base := mustRender(t, c, m).checksum
	if len(base) > 63 {
		t.Errorf("a label value cannot hold %q", base)
	}
	if again := mustRender(t, newOffline(t), m).checksum; again != base {
		t.Errorf("another client: %s, want %s", again, base)
	}
	if unused := mustRender(t, c, m.with("unused", "x")).checksum; unused != base {
		t.Error("a value that no template uses changes the checksum")
	}
	if other := mustRender(t, c, m.with("text", "two")).checksum; other == base {
		t.Error("another text has the same checksum")
	}
	labelled := newOffline(t)
	labelled.root.options.Labels = map[string]string{"a": "b"}
	if mustRender(t, labelled, m).checksum == base {
		t.Error("labels do not change the checksum (H10)")
	}
	h := module(t, "hooks").with("word", "x")
	before := mustRender(t, c, h).checksum
	write(t, h, "templates/before.yaml", "")
	if mustRender(t, c, h).checksum == before {
		t.Error("a removed hook does not change the checksum")
	}
	tests := module(t, "simple").with("text", "one")
	write(t, tests, "templates/tests/a.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: \"{{ uuidv4 }}\", annotations: {helm.sh/hook: test}}}")
	if with := mustRender(t, c, tests); with.checksum != base || with.hooks {
		t.Errorf("a helm test changes the checksum to %s, want %s; or it counts as a hook: %v", with.checksum, base, with.hooks)
	}
	write(t, tests, "templates/tests/a.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {helm.sh/hook: \"test,pre-upgrade\"}}}")
	if mustRender(t, c, tests).checksum == base {
		t.Error("a hook that is not only a test does not change the checksum")
	}
}

// H14: hooks are no objects that could be absent; lists are taken apart.
func TestRenderObjects(t *testing.T) {
	c := newOffline(t)
	if got := mustRender(t, c, module(t, "hooks").with("word", "x")).objects; len(got) != 1 || got[0].String() != "ConfigMap hooks" {
		t.Errorf("objects = %v", got)
	}
	m := moduleOf(t, "m", `
-- templates/a.yaml --
kind: List
apiVersion: v1
items:
- {kind: ConfigMap, apiVersion: v1, metadata: {name: one}}
- {kind: Secret, apiVersion: v1, metadata: {name: two, namespace: elsewhere, annotations: {empty: }}}
---
# a comment only
`)
	got := mustRender(t, c, m).objects
	if len(got) != 2 || got[0].String() != "ConfigMap one" || got[1].String() != "Secret elsewhere/two" {
		t.Errorf("objects = %v", got)
	}
}

// The same inputs are rendered once; lookup makes the cluster an input.
func TestRenderMemo(t *testing.T) {
	c := newOffline(t)
	m := moduleOf(t, "m", "-- templates/a.yaml --\n"+configMap+"data: {random: \"{{ randAlphaNum 30 }}\"}\n")
	first := mustRender(t, c, m)
	if mustRender(t, c, m) != first {
		t.Error("rendered again although nothing changed")
	}
	if mustRender(t, c, m.with("a", "b")) == first {
		t.Error("other values, same render")
	}
	first = mustRender(t, c, m)
	write(t, m, "templates/b.yaml", "# longer than before, so that size and time differ")
	if mustRender(t, c, m) == first {
		t.Error("changed chart, same render")
	}
}

func TestRenderCancelled(t *testing.T) {
	c := newOffline(t)
	m := moduleOf(t, "m", "-- templates/a.yaml --\n{{ fail \"x\" }}\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	op := offline(t, c)
	op.ctx = ctx
	err := renderProblem(ctx, op, m, errors.New("lookup ended"))
	var problem *Error
	if !errors.As(err, &problem) || problem.Kind != Cancelled {
		t.Errorf("error = %v", err)
	}
}

func mustRender(t testing.TB, c *Client, m Module) *rendered {
	t.Helper()
	r, err := renderOffline(t, c, m)
	must(t, err)
	return r
}

// H2, A20: templates see values of the types that Helm reads from a file, in both forms of modules and from all
// layers: Helm's own library prints the same.
func TestTemplatesSeeTypesOfHelm(t *testing.T) {
	const (
		values = `{port: 9200, negative: -1, large: 5000000, million: 1000000, largest: 9007199254740993, huge: 18446744073709551615,
 beyond: 123456789012345678901234567890, octal: 0644, hex: 0xFF, half: 0.5, one: 1.0, exponent: 1e6, text: "5000000", date: 2024-01-01,
 time: 2024-01-01T10:00:00Z, words: [yes, "yes", on, n], nothing: null, list: [1, 2.5, [3], {four: 4}], deep: {five: {six: 6}}, empty: {}, none: []}`
		show = `{{ define "show" }}{{ range $key, $value := . }}
{{ $key }}: {{ kindOf $value }} {{ printf "%T %v %.0f %d %s" $value $value $value $value $value }} {{ $value }} {{ toYaml $value | quote }} {{ toJson $value | quote }} {{ typeIs "float64" $value }} {{ int64 $value }}
{{- if kindIs "map" $value }}{{ include "show" $value }}{{ end }}{{ if kindIs "slice" $value }}{{ range $value }} {{ kindOf . }} {{ . }}{{ end }}{{ end }}{{ end }}{{ end }}`
		all = `{{ include "show" SECTION }}
{{ gt SECTION.large SECTION.ofChart }} {{ lt SECTION.half SECTION.exponent }} {{ eq SECTION.port SECTION.deflt }} {{ add SECTION.port 1 }} {{ mul SECTION.half 2 }}
{{ include "show" .Values.global }}
{{ typeOf .Release.Revision }} {{ typeOf .Release.IsUpgrade }} {{ typeOf .Capabilities.KubeVersion.Minor }} {{ typeOf .Chart.Version }}
`
		defaults = "{ofChart: 1000000, deflt: 9200, list: [5], more: [5, 6000000]}"
		given    = "web: " + values + "\nglobal: {number: 3000000, small: 3, list: [1]}\n"
	)
	for name, c := range map[string]struct{ files, section, values string }{
		"the chart is the module": {"-- Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n-- values.yaml --\nother: " + defaults + "\nglobal: {ofChart: 4}\n" +
			"-- templates/all.txt --\n" + strings.ReplaceAll(strings.NewReplacer("SECTION.ofChart", ".Values.other.ofChart", "SECTION.deflt", ".Values.other.deflt").Replace(all), "SECTION", ".Values.web") +
			"{{ include \"show\" .Values.other }}", "", ""},
		"chart/": {"-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n-- chart/values.yaml --\n" + defaults + "\n-- values.yaml --\nglobal: {nextTo: 7, million: 2000000}\n" +
			"-- chart/templates/all.txt --\n" + strings.ReplaceAll(all, "SECTION", ".Values"), "web", "global: {nextTo: 7, million: 2000000}"},
		"a subchart": {"-- Chart.yaml --\n{apiVersion: v2, name: wrapper, version: 1.0.0, dependencies: [{name: other, version: 1.0.0, alias: web}]}\n" +
			"-- charts/other/Chart.yaml --\n{apiVersion: v2, name: other, version: 1.0.0}\n-- charts/other/values.yaml --\n" + defaults +
			"\n-- charts/other/templates/all.txt --\n" + strings.ReplaceAll(all, "SECTION", ".Values") + "\n-- templates/a.txt --\n{{ include \"show\" .Values.web }}", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := moduleOf(t, "web", strings.ReplaceAll(c.files, "all.txt --\n", "all.txt --\n"+show))
			number := func(d *json.Decoder) *json.Decoder {
				d.UseNumber()
				return d
			}
			must(t, yaml.Unmarshal([]byte(given), &m.Values, number))
			m.Values, _ = asTree(m.Values).(map[string]any)
			got, want := texts(t, newOffline(t), m), textsOfHelm(t, m, given, c.section, c.values)
			if len(want) == 0 || !strings.Contains(strings.Join(slices.Collect(maps.Values(want)), ""), "large: float64 float64 5e+06 5000000") {
				t.Fatalf("Helm prints %v", want)
			}
			for file, text := range want {
				if got[file] != text {
					t.Errorf("%s prints\n%s\nand with Helm\n%s", file, got[file], text)
				}
			}
		})
	}
}

// asTree has numbers as merged values have them: integers are int64 if they fit.
func asTree(value any) any {
	switch v := value.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return f
		}
	case []any:
		for i := range v {
			v[i] = asTree(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = asTree(v[key])
		}
	}
	return value
}

// textsOfHelm are what the templates of a module print with Helm's own library, and a file of values: the whole of
// given, or one section of it and its global over the text below.
func textsOfHelm(t *testing.T, m Module, given, section, below string) map[string]string {
	t.Helper()
	read := func(text string) chartutil.Values {
		t.Helper()
		all, err := chartutil.ReadValues([]byte(text))
		must(t, err)
		return all
	}
	values := read(given)
	if section != "" {
		own, _ := values[section].(map[string]any)
		own["global"] = chartutil.CoalesceTables(map[string]any{"global": values["global"]}, read(below))["global"]
		values = own
	}
	ch, err := loader.LoadDir(charts.Root(m.Dir))
	if err == nil {
		err = chartutil.ProcessDependenciesWithMerge(ch, values)
	}
	must(t, err)
	top, err := chartutil.ToRenderValues(ch, values, chartutil.ReleaseOptions{Name: m.Name, Namespace: "default", Revision: 1, IsUpgrade: true}, nil)
	must(t, err)
	files, err := engine.Render(ch, top)
	must(t, err)
	return files
}

// texts are what the templates of a module print.
func texts(t *testing.T, c *Client, m Module) map[string]string {
	t.Helper()
	loaded, err := c.root.renderer.load(&m)
	must(t, err)
	files, err := c.root.renderer.renderFiles(offline(t, c), m, loaded, &lookupClients{})
	must(t, err)
	return files
}
