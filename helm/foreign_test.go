package helm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"addon-operator/helm/charts"
	"addon-operator/helm/fetch/fetchtest"
	"addon-operator/helm/kinds"
	"addon-operator/helm/manifest"
	"addon-operator/testkit/devclustertest"
)

// Charts of others run as Helm runs them: the same manifest, the same objects, and nothing to
// do after a restart. The charts of testdata/foreign are ours and have the constructs that
// public charts use; CHARTS=DIR plays the charts in DIR, with the values in NAME.values.yaml
// next to each.
func TestForeignCharts(t *testing.T) {
	if dir := os.Getenv("CHARTS"); dir != "" {
		playDirectory(t, dir)
		return
	}
	files, err := filepath.Glob("testdata/foreign/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no charts: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			must(t, err)
			f := start(t)
			m := Module{Name: name, Key: name, Dir: t.TempDir(), Values: map[string]any{"global": map[string]any{}, name: map[string]any{}}}
			own := strings.NewReplacer("GROUP", groupOf(f.namespace), "KIND", devclustertest.Kind("Thing"))
			for _, file := range archive.Files {
				write(t, m, file.Name, own.Replace(string(file.Data)))
			}
			t.Cleanup(func() {
				_ = f.crds().Delete(context.Background(), "things."+groupOf(f.namespace), metav1.DeleteOptions{})
			})
			f.playLikeHelm(m)
		})
	}
}

// A chart in chart/ of a module with a dash in its name is what Helm installs of the chart itself: its values
// are those of the section, global is shared, the names are those of release and chart. A20.
func TestChartAsItIs(t *testing.T) {
	for _, name := range []string{"family", "workloads"} {
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile("testdata/foreign/" + name + ".txtar")
			must(t, err)
			f := start(t)
			m := Module{Name: "my-" + name, Key: "my" + name, Dir: t.TempDir(), Values: map[string]any{
				"global":    map[string]any{"domain": "example.org", "shared": int64(1)},
				"my" + name: map[string]any{"child": map[string]any{"port": int64(9090)}, "global": map[string]any{"own": int64(2)}},
			}}
			own := strings.NewReplacer("GROUP", groupOf(f.namespace), "KIND", devclustertest.Kind("Thing"))
			for _, file := range archive.Files {
				write(t, m, "chart/"+file.Name, own.Replace(string(file.Data)))
			}
			write(t, m, "values.yaml", "my"+name+": {}\nglobal: {domain: example.net}\n")
			write(t, m, "chart/templates/print.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-{{ .Chart.Name }}"}
data: {values: {{ .Values | toYaml | quote }}}
`)
			f.playLikeHelm(m)
		})
	}
}

// playDirectory plays charts that may share kinds and names of the cluster: one after the other.
func playDirectory(t *testing.T, dir string) {
	t.Helper()
	cluster := devclustertest.Start(t)
	for _, dir := range fetchtest.Charts(t, dir) {
		t.Run(filepath.Base(dir), func(t *testing.T) { startOn(t, cluster).playLikeHelm(wrapped(t, dir)) })
	}
}

// wrapped is a module that brings a chart as its only subchart.
func wrapped(t *testing.T, dir string) Module {
	t.Helper()
	name := filepath.Base(dir)
	m := Module{Name: name, Key: "ownSection", Dir: t.TempDir(), Values: map[string]any{"global": map[string]any{}}}
	write(t, m, "Chart.yaml", "{apiVersion: v2, name: "+name+", version: 0.1.0}\n")
	must(t, os.CopyFS(filepath.Join(m.Dir, "charts", name), os.DirFS(dir)))
	text, err := os.ReadFile(dir + ".values.yaml")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var values map[string]any
	must(t, yaml.Unmarshal(text, &values))
	section, err := yaml.Marshal(map[string]any{name: values})
	must(t, err)
	write(t, m, "values.yaml", string(section))
	return m
}

// playLikeHelm installs a chart with Helm and with ours, one after the other in one namespace:
// two could not share what has no namespace.
func (f *fixture) playLikeHelm(m Module) {
	f.Helper()
	ctx, stop := context.WithCancel(f.Context())
	defer stop()
	go devclustertest.FinishPods(ctx, f.kube, f.namespace)
	theirs, err := f.stockInstall(m, false)
	f.client.ResetDiscovery() // Helm may have installed CRDs
	if err != nil {           // for example objects of kinds that another chart brings
		_, _ = action.NewUninstall(f.stock()).Run(m.Name)
		if os.Getenv("CHARTS") == "" {
			f.Fatalf("helm install: %v", err)
		}
		if outcome, ours := f.client.Apply(f.Context(), m); ours == nil {
			f.Errorf("%+v, but Helm refuses the chart: %v", outcome, err)
		}
		f.Skip("Helm refuses the chart, too: ", err)
	}
	want := f.liveObjects(theirs)
	if _, err := action.NewUninstall(f.stock()).Run(m.Name); err != nil {
		f.Fatalf("helm uninstall: %v", err)
	}
	f.eventually(func() bool { return !f.leftovers(theirs) })
	chance, err := f.stockInstall(m, true)
	if err != nil {
		f.Fatalf("helm install --dry-run: %v", err)
	}

	f.apply(m, Installed, 1)
	ours := f.lastRelease(m.Name)
	stable := f.client.root.renderer.recorded(chance) == f.client.root.renderer.recorded(theirs)
	if sum, label := f.client.root.renderer.recorded(ours), ours.Labels[ChecksumLabel]; stable && sum != label {
		f.Errorf("the checksum of the record is %s, its label says %s", sum, label)
	}
	f.compareTexts(chance.Manifest, theirs.Manifest, ours.Manifest)
	f.compareLive(chance, theirs, want, f.liveObjects(ours))
	if f.settles(m) {
		f.wantNoop(m)
	}
	f.uninstall(m.Name, true)
}

// settles reports whether a chart renders to the same each time. One that does not is upgraded when the cluster
// gets new kinds, and other tests add some.
func (f *fixture) settles(m Module) bool {
	f.Helper()
	first, err := f.client.Show(f.Context(), m)
	must(f, err)
	second, err := f.client.Show(f.Context(), m)
	must(f, err)
	return fmt.Sprint(first) == fmt.Sprint(second) || os.Getenv("CHARTS") != ""
}

// wantNoop expects that nothing is to do after a restart.
func (f *fixture) wantNoop(m Module) {
	f.Helper()
	f.restart()
	f.apply(m, Skipped, 1)
	if p, err := f.client.Plan(f.Context(), m); err != nil || p.Action != Skipped || len(p.Changes) > 0 {
		f.Errorf("plan of what is as it should be: %+v, %v", p, err)
	}
}

// stockInstall is helm install, or helm install --dry-run=server.
func (f *fixture) stockInstall(m Module, dry bool) (*release.Release, error) {
	f.Helper()
	ch, err := loader.LoadDir(charts.Root(m.Dir))
	must(f, err)
	values := m.Values
	if charts.Root(m.Dir) != m.Dir {
		values = f.valuesFile(m)
	}
	install := action.NewInstall(f.stock())
	install.ReleaseName, install.Namespace, install.Timeout = m.Name, f.namespace, time.Minute
	install.TakeOwnership = true // CRDs that an earlier chart has asked to keep
	if dry {
		install.DryRun, install.DryRunOption = true, "server"
	}
	return install.Run(ch, values)
}

// valuesFile are the values that a person gives to helm install for what a module with chart/ gets.
func (f *fixture) valuesFile(m Module) (values map[string]any) {
	f.Helper()
	text, err := yaml.Marshal(m.Values[m.Key])
	if err == nil {
		err = yaml.Unmarshal(text, &values)
	}
	must(f, err)
	values["global"] = map[string]any{"domain": "example.org", "shared": 1.0, "own": 2.0}
	return values
}

func (f *fixture) lastRelease(name string) *release.Release {
	f.Helper()
	rel, err := f.stock().Releases.Last(name)
	must(f, err)
	return rel
}

// each calls see for the objects of a manifest, as the cluster has them; nil when there is none.
func (f *fixture) each(rel *release.Release, see func(o Object, live *unstructured.Unstructured)) {
	f.Helper()
	client, err := dynamic.NewForConfig(f.config)
	must(f, err)
	objects, err := manifest.Parse(rel.Manifest)
	must(f, err)
	for _, u := range objects {
		o := manifest.Of(u)
		m, err := f.client.root.kinds.Mapping(o.GVK)
		must(f, err)
		var from dynamic.ResourceInterface = client.Resource(m.Resource)
		if kinds.Namespaced(m) {
			from = client.Resource(m.Resource).Namespace(cmp.Or(o.Namespace, f.namespace))
		}
		live, err := from.Get(f.Context(), o.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			f.Fatal(err)
		}
		if err != nil {
			live = nil
		}
		see(o, live)
	}
}

// liveObjects are the objects of a release without what differs by nature.
func (f *fixture) liveObjects(rel *release.Release) map[string]map[string]any {
	f.Helper()
	all := map[string]map[string]any{}
	f.each(rel, func(o Object, live *unstructured.Unstructured) {
		if live == nil {
			f.Errorf("%s is not there", o)
			return
		}
		strip(live, f.namespace)
		ports, _, _ := unstructured.NestedSlice(live.Object, "spec", "ports")
		for _, port := range ports {
			if fields, ok := port.(map[string]any); ok {
				delete(fields, "nodePort")
			}
		}
		if len(ports) > 0 {
			_ = unstructured.SetNestedSlice(live.Object, ports, "spec", "ports")
		}
		all[o.String()] = live.Object
	})
	return all
}

// leftovers reports whether objects that an uninstall takes away are still there.
func (f *fixture) leftovers(rel *release.Release) (left bool) {
	f.Helper()
	f.each(rel, func(_ Object, live *unstructured.Unstructured) {
		left = left || live != nil && live.GetAnnotations()["helm.sh/resource-policy"] != "keep"
	})
	return left
}

// compareTexts compares manifests, but for the lines that chance makes.
func (f *fixture) compareTexts(chance, theirs, ours string) {
	f.Helper()
	other, want, got := strings.Split(chance, "\n"), strings.Split(theirs, "\n"), strings.Split(ours, "\n")
	if len(want) != len(got) {
		f.Errorf("the manifest has %d lines, that of Helm %d:\n%s", len(got), len(want), ours)
		return
	}
	for i := range want {
		if want[i] != got[i] && want[i] == other[i] {
			f.Errorf("line %d of the manifest is %q, that of Helm %q", i+1, got[i], want[i])
		}
	}
}

// compareLive compares what is in the cluster, but for objects that chance has a part in.
func (f *fixture) compareLive(chance, theirs *release.Release, want, got map[string]map[string]any) {
	f.Helper()
	first, second := documents(chance.Manifest), documents(theirs.Manifest)
	for name, object := range want {
		if reflect.DeepEqual(first[name], second[name]) && !reflect.DeepEqual(object, got[name]) {
			f.Errorf("%s in the cluster is\n%s\nand by Helm\n%s", name, jsonOf(got[name]), jsonOf(object))
		}
	}
	if len(want) != len(got) {
		f.Errorf("%d objects, Helm makes %d", len(got), len(want))
	}
}

// documents are the objects of a manifest by their names.
func documents(text string) map[string]map[string]any {
	all := map[string]map[string]any{}
	objects, err := manifest.Parse(text)
	if err != nil {
		panic(fmt.Sprint("a manifest of Helm: ", err))
	}
	for _, u := range objects {
		all[manifest.Of(u).String()] = u.Object
	}
	return all
}
