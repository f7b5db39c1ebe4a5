package helm

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"addon-operator/helm/charts"
	"addon-operator/helm/manifest"
)

// stock is Helm as its command line sets it up.
func (f *fixture) stock() *action.Configuration {
	f.Helper()
	settings := cli.New()
	settings.KubeConfig = f.cluster.Kubeconfig()
	settings.SetNamespace(f.namespace)
	cfg := &action.Configuration{}
	must(f, cfg.Init(settings.RESTClientGetter(), f.namespace, string(f.recordsIn), func(format string, args ...any) { fmt.Fprintf(f.log, format+"\n", args...) }))
	return cfg
}

// The helm command line works with our releases, and ours with what it did.
func TestStockHelm(t *testing.T) {
	for _, recordsIn := range []Driver{SecretDriver, ConfigMapDriver} {
		t.Run(string(recordsIn), func(t *testing.T) {
			f := start(t)
			f.recordsIn = recordsIn
			f.restart()
			besideStock(t, f)
		})
	}
}

func TestDriverIsReadFromText(t *testing.T) {
	for text, want := range map[string]Driver{"": SecretDriver, "secret": SecretDriver, "Secrets": SecretDriver, "configmap": ConfigMapDriver, "configmaps": ConfigMapDriver} {
		var got Driver
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"sql", "memory", "etcd"} {
		if err := new(Driver).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "configmap") {
			t.Errorf("%q: error %v, want one that names what is served", text, err)
		}
	}
}

func besideStock(t *testing.T, f *fixture) {
	t.Helper()
	m := module(t, "simple").with("text", "one")
	f.apply(m, Installed, 1)
	f.apply(m.with("text", "two"), Upgraded, 2)

	list, err := action.NewList(f.stock()).Run()
	if err != nil || len(list) != 1 || list[0].Name != "simple" || list[0].Chart.Metadata.Version != "0.2.0" {
		t.Fatalf("helm list: %v, %v", list, err)
	}
	history, err := action.NewHistory(f.stock()).Run("simple")
	if err != nil || len(history) != 2 {
		t.Fatalf("helm history: %v, %v", history, err)
	}
	values, err := action.NewGetValues(f.stock()).Run("simple")
	if want := map[string]any{"global": map[string]any{}, "simple": map[string]any{"text": "two"}}; err != nil || !reflect.DeepEqual(values, want) {
		t.Errorf("helm get values: %v, %v", values, err)
	}
	if status, err := action.NewStatus(f.stock()).Run("simple"); err != nil || status.Info.Status != release.StatusDeployed {
		t.Errorf("helm status: %v, %v", status, err)
	}

	rollback := action.NewRollback(f.stock())
	rollback.Version = 1
	if err := rollback.Run("simple"); err != nil {
		t.Fatalf("helm rollback: %v", err)
	}
	if got := f.configMap("simple-a")["text"]; got != "one" {
		t.Errorf("text = %q after helm rollback", got)
	}
	f.apply(m.with("text", "two"), Upgraded, 4) // what a person did by hand is undone
	if got := f.configMap("simple-a")["text"]; got != "two" {
		t.Errorf("text = %q", got)
	}

	loaded, err := new(charts.Cache).Load(charts.Module{Name: m.Name, Dir: m.Dir})
	must(t, err)
	upgrade := action.NewUpgrade(f.stock())
	upgrade.Namespace = f.namespace
	upgrade.ResetValues = true
	if _, err := upgrade.Run("simple", loaded.Copy(), map[string]any{"global": map[string]any{}, "simple": map[string]any{"text": "by hand"}}); err != nil {
		t.Fatalf("helm upgrade: %v", err)
	}
	f.apply(m.with("text", "two"), Upgraded, 6)

	keep := action.NewUninstall(f.stock())
	keep.KeepHistory = true
	if _, err := keep.Run("simple"); err != nil {
		t.Fatalf("helm uninstall --keep-history: %v", err)
	}
	f.apply(m.with("text", "two"), Installed, 7)
	if _, err := action.NewUninstall(f.stock()).Run("simple"); err != nil {
		t.Fatalf("helm uninstall: %v", err)
	}
	f.wantRevisions("simple")
	if f.configMap("simple-a") != nil {
		t.Error("simple-a stays")
	}
	f.apply(m, Installed, 1) // the remembered state is not trusted
}

// differential is a chart whose objects and fields come and go with its values.
const differential = `
-- Chart.yaml --
{apiVersion: v2, name: diff, version: 1.0.0}
-- templates/all.yaml --
{{ range $name, $data := .Values.diff.maps }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
data: {{ toYaml $data | nindent 2 }}
{{ end }}
{{ range $name, $port := .Values.diff.services }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
spec:
  selector: {app: {{ $name }}}
  ports: [{name: http, port: {{ $port }}}]
{{ end }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  paused: {{ .Values.diff.paused }}
  replicas: {{ .Values.diff.replicas }}
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      {{- range .Values.diff.containers }}
      - {name: {{ . }}, image: none, env: [{name: A, value: "{{ . }}"}]}
      {{- end }}
`

// differentialSteps: make differential takes many, which lasts minutes.
var differentialSteps = flag.Int("steps", 32, "steps of TestDifferential; make check plays 600")

// The store and the cluster of ours are compared with Helm's own: the same random
// values and the same drift by hand give the same objects and the same history.
func TestDifferential(t *testing.T) {
	const sequences = 4 // side by side: a step waits more than it computes
	steps := *differentialSteps
	if raced {
		steps = min(steps, 8)
	}
	for n := range uint64(sequences) {
		t.Run("", func(t *testing.T) {
			// In one sequence the controllers make ReplicaSets and Pods. They are not compared, and
			// they take most of the API server's time.
			differ(t, rand.New(rand.NewPCG(20, 6+n)), steps/sequences, n > 0)
		})
	}
}

// differ plays one sequence of steps in two namespaces.
func differ(t *testing.T, rnd *rand.Rand, steps int, paused bool) {
	t.Helper()
	ours := start(t)
	theirs := startOn(t, ours.cluster)
	m := moduleOf(t, "diff", differential).with("paused", paused)
	var services map[string]any
	for i := range steps {
		// A failing step brings no new objects: Helm forgets those, we do not.
		// TestApplyAfterFailedUpgrade is about this one difference.
		broken := i%7 == 6
		if !broken {
			m = m.with("maps", randomMaps(rnd))
		}
		services = randomServices(rnd, services, broken)
		m = m.with("services", services)
		m = m.with("replicas", int64(rnd.IntN(3))).with("containers", []any{"a", "b", "c"}[:1+rnd.IntN(3)])
		ours.caughtUp()
		_, err := ours.client.Apply(t.Context(), m)
		stockErr := theirs.stockApply(m)
		if (err == nil) != (stockErr == nil) {
			t.Fatalf("step %d: ours %v, stock %v", i, err, stockErr)
		}
		a, b := ours.dump(), theirs.dump()
		if !slices.Equal(a, b) {
			t.Fatalf("step %d (%v):\nours:\n%s\nstock:\n%s", i, err, strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
		drift := rnd.Uint64()
		for _, f := range []*fixture{ours, theirs} {
			f.drift(rand.New(rand.NewPCG(drift, 0)))
		}
	}
	ours.uninstall("diff", true)
	must(t, second(action.NewUninstall(theirs.stock()).Run("diff")))
	if a, b := ours.dump(), theirs.dump(); !slices.Equal(a, b) {
		t.Errorf("after uninstall:\nours:\n%s\nstock:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}

func randomMaps(rnd *rand.Rand) map[string]any {
	maps := map[string]any{}
	for _, name := range []string{"m1", "m2", "m3", "m4"} {
		if rnd.IntN(3) == 0 {
			continue
		}
		data := map[string]any{"always": "x"}
		for _, key := range []string{"a", "b", "c"} {
			if rnd.IntN(2) == 0 {
				data[key] = fmt.Sprint(rnd.IntN(3), "v")
			}
		}
		maps[name] = data
	}
	return maps
}

// randomServices may contain one that the API server refuses, and then no new ones.
func randomServices(rnd *rand.Rand, before map[string]any, broken bool) map[string]any {
	services := map[string]any{"s1": int64(80 + rnd.IntN(2))}
	if broken {
		// A port that changed in a failed revision and changes again is a port too
		// many: the next step would fail as well, and bring new objects.
		services["s1"] = before["s1"]
	}
	if _, known := before["s2"]; rnd.IntN(2) == 0 && (known || !broken) {
		services["s2"] = int64(8080)
	}
	if broken {
		services["s3"] = int64(-1)
	}
	return services
}

// drift changes or deletes an object by hand.
func (f *fixture) drift(rnd *rand.Rand) {
	f.Helper()
	name := fmt.Sprint("m", 1+rnd.IntN(4))
	maps := f.kube.CoreV1().ConfigMaps(f.namespace)
	cm, err := maps.Get(f.Context(), name, metav1.GetOptions{})
	if err != nil {
		return
	}
	switch rnd.IntN(3) {
	case 0:
		f.deleteConfigMap(name)
	case 1:
		cm.Data["a"], cm.Data["foreign"] = "by hand", "yes"
		must(f, second(maps.Update(f.Context(), cm, metav1.UpdateOptions{})))
	}
}

// stockApply is what an operator on the plain library does: decide with the
// same rules, act with Helm's own client, driver and loading.
func (f *fixture) stockApply(m Module) error {
	f.Helper()
	ch, err := loader.LoadDir(m.Dir)
	must(f, err)
	cfg := f.stock()
	history, err := cfg.Releases.History(m.Name)
	releaseutil.SortByRevision(history)
	if err != nil {
		install := action.NewInstall(cfg)
		install.ReleaseName, install.Namespace = m.Name, f.namespace
		install.TakeOwnership, install.DisableOpenAPIValidation = true, true
		_, err := install.Run(ch, m.Values)
		return err
	}
	last := history[len(history)-1]
	if last.Info.Status == release.StatusDeployed && reflect.DeepEqual(jsonOf(last.Config), jsonOf(m.Values)) && f.allThere(last.Manifest) {
		return nil
	}
	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace, upgrade.MaxHistory = f.namespace, 3
	upgrade.ResetValues, upgrade.TakeOwnership, upgrade.DisableOpenAPIValidation = true, true, true
	_, err = upgrade.Run(m.Name, ch, m.Values)
	return err
}

func (f *fixture) allThere(text string) bool {
	f.Helper()
	objects, err := manifest.Parse(text)
	must(f, err)
	var names []Object
	for _, o := range objects {
		names = append(names, manifest.Of(o))
	}
	absent, err := f.client.root.absent(f.Context(), names)
	must(f, err)
	return len(absent) == 0
}

// dump returns all objects of the namespace, without what differs by nature,
// and the history of the release.
func (f *fixture) dump() []string {
	f.Helper()
	client, err := dynamic.NewForConfig(rest.CopyConfig(f.config))
	must(f, err)
	var out []string
	for _, gvr := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "services"}, {Group: "apps", Version: "v1", Resource: "deployments"},
	} {
		list, err := client.Resource(gvr).Namespace(f.namespace).List(f.Context(), metav1.ListOptions{})
		must(f, err)
		for _, o := range list.Items {
			if o.GetName() == "kube-root-ca.crt" {
				continue
			}
			strip(&o, f.namespace)
			out = append(out, jsonOf(o.Object))
		}
	}
	return append(out, f.revisions("diff")...)
}

func strip(o *unstructured.Unstructured, namespace string) {
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	for _, field := range []string{"clusterIP", "clusterIPs"} {
		unstructured.RemoveNestedField(o.Object, "spec", field)
	}
	delete(o.Object, "status")
	unstructured.RemoveNestedField(o.Object, "metadata", "labels", MarkLabel)
	annotations := o.GetAnnotations()
	for k, v := range annotations {
		annotations[k] = strings.ReplaceAll(v, namespace, "NAMESPACE")
	}
	delete(annotations, "deployment.kubernetes.io/revision")
	o.SetAnnotations(annotations)
}
