package helm

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"addon-operator/kube"
	"addon-operator/testkit/devclustertest"
)

// recalls reports whether the last Apply of a module took the manifest from the record of its release.
func (f *fixture) recalls(m Module) bool {
	last, _ := f.client.root.renderer.renders.Load(m.Name)
	known, _ := last.(*rendered)
	return known != nil && known.record != ""
}

// H6: after a start, a release that is as it should be is neither rendered nor written, until something has changed.
func TestRecall(t *testing.T) {
	const chart = `
-- templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: recalled}, data: {text: "{{ .Values.simple.text }}"}}
-- templates/b.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}
`
	for change, test := range map[string]struct {
		change   func(f *fixture, m *Module)
		want     Action
		revision int
		recalls  bool
	}{
		"nothing": {func(*fixture, *Module) {}, Skipped, 1, true},
		"values":  {func(_ *fixture, m *Module) { *m = m.with("text", "two") }, Upgraded, 2, false},
		"a file": {func(f *fixture, m *Module) {
			write(f.T, *m, "templates/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: another}\n")
		}, Upgraded, 2, false},
		"a file that prints nothing":             {func(f *fixture, m *Module) { write(f.T, *m, "README.md", "new") }, Skipped, 1, false},
		"an object is absent":                    {func(f *fixture, _ *Module) { f.deleteConfigMap("other") }, Upgraded, 2, false},
		"the record was written by an older one": {func(f *fixture, _ *Module) { f.editRecord("simple", 1, func(s *corev1.Secret) { s.Annotations = nil }) }, Skipped, 1, false},
		"the note is broken": {func(f *fixture, _ *Module) {
			f.editRecord("simple", 1, func(s *corev1.Secret) { s.Annotations[RenderedAnnotation] = "{" })
		}, Skipped, 1, false},
		"the checksum is another one": {func(f *fixture, _ *Module) {
			f.editRecord("simple", 1, func(s *corev1.Secret) { s.Labels[ChecksumLabel] = "other" })
		}, Skipped, 1, false},
		"the build": {func(f *fixture, _ *Module) { f.client.homes.build = "another" }, Skipped, 1, false},
	} {
		t.Run(change, func(t *testing.T) {
			f := start(t)
			m := moduleOf(t, "simple", chart).with("text", "one")
			f.apply(m, Installed, 1)
			f.client.Close(f.Context())
			f.restart()
			f.caughtUp()
			test.change(f, &m)
			f.caughtUp()
			f.apply(m, test.want, test.revision)
			if f.recalls(m) != test.recalls {
				t.Errorf("recalled: %v", !test.recalls)
			}
			if change == "the checksum is another one" {
				return // what a record without a reason to be trusted says is held, and not noted
			}
			build := f.client.homes.build
			f.client.Close(f.Context())
			f.restart()
			f.client.homes.build = build
			f.caughtUp()
			noted := !strings.HasPrefix(change, "the record was") && change != "the note is broken" // no record is written for it
			if outcome := f.apply(m, Skipped, test.revision); f.recalls(m) != noted || len(outcome.Objects) != 2 {
				t.Errorf("not as it should be at the next start: %+v", outcome)
			}
		})
	}
}

// A change that no template prints is noted for all releases with one request, and none for each; after a restart,
// nothing is rendered for it. A record that is not the one that was noted is rendered. H6.
func TestChangeThatNothingPrints(t *testing.T) {
	f := start(t)
	requests := f.record()
	var modules []Module
	for _, name := range []string{"one", "two", "three"} {
		m := moduleOf(t, name, "-- templates/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Release.Name }}}}\n")
		f.apply(m, Installed, 1)
		modules = append(modules, m)
	}
	own := func() []string {
		return slices.DeleteFunc(requests.take(), func(r string) bool { return !strings.Contains(r, "/namespaces/"+f.namespace+"/") })
	}
	f.client.Close(f.Context()) // creates the object
	for _, value := range []string{"a", "b"} {
		f.caughtUp()
		must(t, second(f.client.Releases(t.Context())))
		own()
		for i, m := range modules {
			modules[i] = m.with("unused", value)
			if got, err := f.client.Apply(f.Context(), modules[i]); err != nil || got.Action != Skipped {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		f.client.Close(f.Context())
		if got := own(); len(got) != 1 || strings.HasPrefix(got[0], "GET") {
			t.Errorf("the requests are %q", got)
		}
	}
	f.restart()
	f.caughtUp()
	own()
	for _, m := range modules {
		if f.apply(m, Skipped, 1); !f.recalls(m) {
			t.Errorf("%s is rendered", m.Name)
		}
	}
	f.editRecord("one", 1, func(s *corev1.Secret) { s.Labels["other"] = "label" })
	f.restart()
	f.caughtUp()
	if f.apply(modules[0], Skipped, 1); f.recalls(modules[0]) {
		t.Error("what was noted for another record is believed")
	}
}

// H6: what a template asks the cluster is an input as well.
func TestRecallKinds(t *testing.T) {
	for how, template := range map[string]string{
		"has":   `"{{ .Capabilities.APIVersions.Has "GROUP/v1" }}"`,
		"range": `"{{ $v := .Capabilities.APIVersions }}{{ $v.Has "v1" }}{{ range $v }}{{ if contains "GROUP" . }}{{ . }}{{ end }}{{ end }}"`,
	} {
		t.Run(how, func(t *testing.T) {
			f := start(t)
			m := moduleOf(t, "asks", "-- templates/a.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: asks}\ndata:\n  kinds: "+
				strings.ReplaceAll(template, "GROUP", groupOf(f.namespace))+"\n")
			f.apply(m, Installed, 1)
			f.client.Close(f.Context())
			f.restart()
			f.caughtUp()
			f.apply(m, Skipped, 1)
			if how == "has" && !f.recalls(m) {
				t.Error("not recalled")
			}
			f.createCRDOf("Asked")
			f.restart()
			f.caughtUp()
			f.apply(m, Upgraded, 2)
			f.deleteCRD()
		})
	}
}

// H6: a new kind in the cluster gives no new password to a chart that does not ask about kinds.
func TestKindsThatNobodyAsksAbout(t *testing.T) {
	for _, test := range []struct {
		asks string
		want Action
	}{
		{"", Skipped},
		{`{{ .Capabilities.APIVersions.Has "other.example/v1" }}`, Skipped},
		{`{{ .Capabilities.APIVersions.Has "GROUP/v1" }}`, Upgraded},
		{`{{ $v := .Capabilities.APIVersions }}{{ $v.Has "v1" }}{{ range $v }}{{ end }}`, Upgraded},
	} {
		t.Run(test.asks, func(t *testing.T) {
			f := start(t)
			text := strings.ReplaceAll(test.asks, "GROUP", groupOf(f.namespace)) + "{{ randAlphaNum 9 }}"
			m := moduleOf(t, "password", "-- templates/a.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {text: '"+text+"'}\n")
			f.apply(m, Installed, 1)
			f.createCRDOf("Asked")
			defer f.deleteCRD()
			f.restart()
			got, err := f.client.Apply(f.Context(), m)
			if err != nil || got.Action != test.want {
				t.Errorf("%+v, %v; want %s", got, err, test.want)
			}
		})
	}
}

// H6: what is not the same for the same inputs is not recalled.
func TestRecallNothing(t *testing.T) {
	for how, text := range map[string]string{
		"chance": `{{ randAlphaNum 5 }}`,
		"lookup": `{{ len (lookup "v1" "ConfigMap" "default" "") }}`,
		"clock":  `{{ now | date "2006" }}`,
		"tpl":    `{{ tpl .Values.simple.text . }}`,
	} {
		t.Run(how, func(t *testing.T) {
			f := start(t)
			m := moduleOf(t, "simple", "-- templates/a.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {a: '"+text+"'}}\n").
				with("text", `{{ now | date "2006" }}`)
			if how != "tpl" {
				m.Values = maps.Clone(m.Values)
				delete(m.Values, "simple")
			}
			f.apply(m, Installed, 1)
			f.editRecord("simple", 1, func(s *corev1.Secret) {
				if note := s.Annotations[RenderedAnnotation]; note != "" {
					t.Errorf("noted: %s", note)
				}
			})
		})
	}
}

// fortyCharts have three ConfigMaps each.
func fortyCharts(t *testing.T) []Module {
	t.Helper()
	modules := make([]Module, 40)
	for i := range modules {
		name := fmt.Sprintf("forty-%02d", i)
		text := "-- Chart.yaml --\napiVersion: v2\nname: " + name + "\nversion: 1.0.0\n-- templates/all.yaml --\n"
		for n := range 3 {
			text += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-%d}\ndata: {text: {{ .Values.text | quote }}}\n", name, n)
		}
		modules[i] = moduleOf(t, name, text)
		modules[i].Values["text"] = "one"
	}
	return modules
}

// The requests that 40 modules may need, without those of watches; TestRequestsWithoutChange is about one. The cluster
// is borrowed: when another test defines a kind, the API server is asked for all of them.
func TestRequestsOfFortyModules(t *testing.T) {
	cluster := devclustertest.Borrow(t)
	var requests atomic.Int64
	config := rest.CopyConfig(cluster.RESTConfig())
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			requests.Add(1)
			return next.RoundTrip(r)
		})
	})
	modules, namespace := fortyCharts(t), cluster.Namespace(t)
	start := func() *Client {
		watcher := watches(t, cluster.Kubeconfig(), nil)
		client, err := New(Options{Config: config, Namespace: namespace, HistoryMax: 10, Watcher: watcher, Presence: kube.NewPresence(watcher, 0)})
		must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		t.Cleanup(stop)
		client.Watch(ctx, News{Gone: func(Object) {}, Health: func(Object, Health) {}})
		return client
	}
	within := func(what string, limit int64, run func()) {
		t.Helper()
		before := requests.Load()
		run()
		if got := requests.Load() - before; got > limit {
			t.Errorf("%s: %d requests, want at most %d", what, got, limit)
		}
	}
	var running *Client
	all := func(want Action) {
		t.Helper()
		for _, m := range modules {
			if got, err := running.Apply(context.Background(), m); err != nil || got.Action != want {
				t.Fatalf("%s: %+v, %v; want %s", m.Name, got, err, want)
			}
		}
	}
	within("cold install", 400, func() { running = start(); all(Installed) })
	within("new process", 40, func() { running = start(); all(Skipped) })
	within("reload", 2, func() { must(t, second(running.Releases(t.Context()))); all(Skipped) })
	for i := range modules {
		modules[i].Values = map[string]any{"text": "two"}
	}
	// The newest record, the objects, a new record, the objects, both records; on a slow machine, the inputs, too.
	within("upgrade", 40*10+3, func() { all(Upgraded) })
}
