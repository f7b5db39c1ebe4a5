package helm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/client-go/rest"
)

// newOffline is a client that needs no cluster.
func newOffline(t testing.TB) *Client {
	t.Helper()
	c, err := New(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
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
	r, err := c.root.renderer.render(op, m, loaded, c.root.recall)
	if err != nil {
		return nil, renderProblem(t.Context(), op, m, err)
	}
	return r, nil
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// A chart that does not render names the template and what to do.
func TestRenderErrors(t *testing.T) {
	tests := []struct {
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
		{"generateName", "-- templates/a.yaml --\nkind: Job\napiVersion: batch/v1\nmetadata: {generateName: a-}\n", []string{"generateName", "set metadata.name"}},
		{"number as label", "-- templates/a.yaml --\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: a, labels: {a: 1}}\n", []string{"ConfigMap a: metadata.labels", "quote"}},
		{"duplicate", "-- templates/a.yaml --\n" + configMap + "-- templates/b.yaml --\n" + configMap, []string{"m/templates/b.yaml: ConfigMap a is already defined in m/templates/a.yaml"}},
		{"Kubernetes too old", "-- Chart.yaml --\napiVersion: v2\nname: m\nversion: 1.0.0\nkubeVersion: '>=9.0.0'\n", []string{"kubeVersion", ">=9.0.0"}},
		{"Chart.yaml", "-- Chart.yaml --\nversion: [\n", []string{"Chart.yaml"}},
		{"no version in Chart.yaml", "-- Chart.yaml --\napiVersion: v2\nname: m\n", []string{"chart.metadata.version"}},
		{"values.yaml", "-- values.yaml --\na: [\n-- templates/a.yaml --\n", []string{"values.yaml"}},
		{"values.schema.json", `-- values.schema.json --
{"properties":{"m":{"required":["host"]}}}
-- templates/a.yaml --
`, []string{"m.host: is required"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newOffline(t)
			m := moduleOf(t, "m", tt.files)
			_, err := renderOffline(t, c, m)
			var problem *Error
			if !errors.As(err, &problem) || problem.Kind != Render {
				t.Fatalf("error = %v, want kind %s", err, Render)
			}
			for _, want := range append(tt.want, "release m: chart in "+m.Dir) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v, want it to contain %q", err, want)
				}
			}
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
	labelled.root.renderer.labels = map[string]string{"a": "b"}
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
	loaded, err := c.Charts().Load(m.chart())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.root.renderer.unstable(offline(t, c), m, loaded, mustRender(t, c, m)), "m/templates/a.yaml, line 4 of its output (randAlphaNum in m/templates/a.yaml, line 4)"; got != want {
		t.Errorf("unstable: %q, want %q", got, want)
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
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// H2: where the module's section is that of a subchart, its numbers are those that Helm reads; else, and
// where a float64 would be printed as 1e+06, integers stay integers (D4).
func TestRenderNumbersOfSubcharts(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"%s\"}\n"
	show := func(values string) string {
		return strings.ReplaceAll("# {{ kindOf VALUES.n }} {{ VALUES.n }} {{ VALUES.large }} {{ kindOf (index VALUES.l 0) }} {{ kindIs \"float64\" VALUES.deep.n }}\n", "VALUES", values)
	}
	for name, c := range map[string]struct{ dependencies, chart, want string }{
		"of the module's name": {"[]", "podinfo", "float64 999999 1000000 float64 true"},
		"an alias":             {"[{name: other, version: 1.0.0, alias: podinfo}]", "other", "float64 999999 1000000 float64 true"},
		"another name":         {"[]", "other", "int64 999999 1000000 int64 false"},
	} {
		t.Run(name, func(t *testing.T) {
			m := moduleOf(t, "podinfo", "-- Chart.yaml --\n{apiVersion: v2, name: wrapper, version: 1.0.0, dependencies: "+c.dependencies+"}\n"+
				"-- templates/own.yaml --\n"+show(".Values.podinfo")+fmt.Sprintf(object, "own")+
				"-- charts/"+c.chart+"/Chart.yaml --\n{apiVersion: v2, name: "+c.chart+", version: 1.0.0}\n"+
				"-- charts/"+c.chart+"/templates/sub.yaml --\n{{ if .Values.n }}\n"+show(".Values")+"{{ end }}"+fmt.Sprintf(object, "sub"))
			m = m.with("n", int64(999999)).with("large", int64(1000000)).with("l", []any{int64(1)}).with("deep", map[string]any{"n": int64(30)})
			files := texts(t, newOffline(t), m)
			for file, got := range files {
				if sees := strings.Contains(got, "#"); sees && !strings.Contains(got, c.want) {
					t.Errorf("%s sees %q, want %q", file, got, c.want)
				}
			}
		})
	}
}

// texts are what the templates of a module print.
func texts(t *testing.T, c *Client, m Module) map[string]string {
	t.Helper()
	loaded, err := c.root.renderer.load(&m)
	if err != nil {
		t.Fatal(err)
	}
	files, err := c.root.renderer.renderFiles(offline(t, c), m, loaded, &lookupClients{})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
