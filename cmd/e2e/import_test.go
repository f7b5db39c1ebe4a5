package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/postrender"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/helm/fetch/fetchtest"
	"addon-operator/testkit/devclustertest"
	"addon-operator/testkit/golden"
	"addon-operator/values"
)

// person is somebody who uses the helm command line in a namespace.
type person struct {
	*fixture
	namespace, driver string
	postRenderer      postrender.PostRenderer
}

// helm is a person who works in a new namespace.
func (h *fixture) helm() person {
	h.t.Helper()
	return person{fixture: h, namespace: devclustertest.Start(h.t).Namespace(h.t), driver: "secret"}
}

// install installs a chart, which is written to the fixture, and returns its directory.
func (p person) install(release, chart, given string) (dir string) {
	p.t.Helper()
	dir = "charts/" + release
	for _, file := range txtar.Parse([]byte(chart)).Files {
		p.write(dir+"/"+file.Name, string(file.Data))
	}
	settings := cli.New()
	settings.KubeConfig = p.kubeconfig
	settings.SetNamespace(p.namespace)
	cfg := &action.Configuration{}
	must(p.t, cfg.Init(settings.RESTClientGetter(), p.namespace, p.driver, func(string, ...any) {}))
	loaded, err := loader.LoadDir(p.path(dir))
	must(p.t, err)
	tree, err := values.ParseYAML([]byte(given))
	must(p.t, err)
	user, _ := tree.(map[string]any) // nothing is an empty map
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace, install.PostRenderer = release, p.namespace, p.postRenderer
	if _, err := install.Run(loaded, user); err != nil {
		p.t.Fatalf("helm install %s: %v", release, err)
	}
	return p.path(dir)
}

// importRelease runs 'import release'.
func (p person) importRelease(args ...string) (output string, failed bool) {
	p.t.Helper()
	cmd := exec.Command(program(), append([]string{"import", "release", "--namespace", p.namespace}, args...)...)
	cmd.Env, cmd.Dir = append(p.environment(), "HELM_DRIVER="+p.driver), p.dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return strings.NewReplacer(p.namespace, "NAMESPACE", p.dir, "DIR").Replace(string(out)), err != nil
}

// deployed are the UIDs and resourceVersions of the ConfigMaps that Helm has made in the namespace, and the revisions
// of all releases there.
func (p person) deployed() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	note := func(m metav1.ObjectMeta) {
		if revision := m.Labels["version"]; m.Labels["owner"] == "helm" {
			all["release "+m.Labels["name"]] += " " + revision + " " + m.Labels["status"]
		} else if m.Labels["app.kubernetes.io/managed-by"] == "Helm" {
			all["ConfigMap "+m.Name] = string(m.UID) + " " + m.ResourceVersion
		}
	}
	cms, err := p.client.CoreV1().ConfigMaps(p.namespace).List(p.ctx, metav1.ListOptions{})
	must(p.t, err)
	for _, cm := range cms.Items {
		note(cm.ObjectMeta)
	}
	secrets, err := p.client.CoreV1().Secrets(p.namespace).List(p.ctx, metav1.ListOptions{})
	must(p.t, err)
	for _, s := range secrets.Items {
		note(s.ObjectMeta)
	}
	return all
}

// texts are the data of a ConfigMap in the namespace of the person.
func (p person) text(name, key string) string {
	p.t.Helper()
	cm, err := p.client.CoreV1().ConfigMaps(p.namespace).Get(p.ctx, name, metav1.GetOptions{})
	must(p.t, err)
	return cm.Data[key]
}

const plainRelease = `-- Chart.yaml --
{apiVersion: v2, name: plain, version: 1.2.3}
-- values.yaml --
text: default
replicas: 1
-- values.schema.json --
{"properties": {"replicas": {"type": "integer"}}}
-- templates/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data: {text: {{ .Values.text | quote }}, replicas: "{{ .Values.replicas }}", by: {{ .Release.Service }}, revision: "{{ .Release.Revision }}"}
`

const parentRelease = `-- Chart.yaml --
apiVersion: v2
name: parent
version: 1.0.0
dependencies:
- {name: sub, version: 0.1.0, alias: cache, condition: cache.enabled, repository: "https://charts.example.com"}
- {name: extra, version: 0.1.0, condition: extra.enabled, repository: "https://charts.example.com"}
-- values.yaml --
extra: {enabled: false}
unset: default
-- templates/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data: {zone: {{ .Values.global.zone }}, unset: {{ .Values.unset | quote }}, million: "{{ int .Values.million }}"}
-- charts/sub/Chart.yaml --
{apiVersion: v2, name: sub, version: 0.1.0}
-- charts/sub/templates/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-sub"}
data: {word: {{ .Values.word }}, zone: {{ .Values.global.zone }}}
-- charts/extra/Chart.yaml --
{apiVersion: v2, name: extra, version: 0.1.0}
-- charts/extra/templates/cm.yaml --
{{ fail "it is off" }}
`

const crdRelease = `-- Chart.yaml --
{apiVersion: v2, name: leaves, version: 1.0.0}
-- crds/leaf.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: leaves.imported.example.com}
spec:
  group: imported.example.com
  scope: Namespaced
  names: {plural: leaves, singular: leaf, kind: Leaf}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
-- templates/leaf.yaml --
apiVersion: imported.example.com/v1
kind: Leaf
metadata: {name: "{{ .Release.Name }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}", annotations: {secret: "{{ randAlphaNum 10 }}"}}
-- templates/hook.yaml --
apiVersion: v1
kind: ConfigMap
metadata:
  name: "{{ .Release.Name }}-hook"
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", random: "{{ randAlphaNum 10 }}"}
`

// A release of Helm becomes a module without a new revision and without a write to its objects: as the import and the
// plan say before, and although its chart has subcharts, values of global, definitions, hooks, and what is random.
// From then on it is a module as others are. Issue 16, 2.3; H6, A20, A21.
func TestImportRelease(t *testing.T) {
	h, cluster := ownFixture(t, "-- modules/values.yaml --\nglobal: {zone: shared}\n-- charts/none --\n", devclustertest.Borrow) // what renders by chance runs again when other tests define kinds
	p := person{fixture: h, namespace: cluster.Namespace(t), driver: "secret"}
	p.install("plain", plainRelease, "text: mine\nreplicas: 3\nadminPassword: hunter2\n")
	parent := p.install("parent", parentRelease, "global: {zone: own}\ncache: {enabled: true, word: hello}\nunset: null\nmillion: 1000000\n")
	p.install("leaves", crdRelease, "")
	before := p.deployed()

	out, failed := p.importRelease("plain", "--dry-run")
	if entries, _ := os.ReadDir(h.path("modules")); failed || len(entries) != 1 {
		t.Errorf("a dry run left %v; it printed\n%s", entries, out)
	}
	expectAll(t, out, "The module would be written to DIR/modules/010-plain", "its release would be adopted: revision 1,")
	out, failed = p.importRelease("plain")
	if failed {
		t.Fatal(out)
	}
	golden.File(t, "testdata/import_plain.golden", out)
	if out, failed = p.importRelease("parent"); !failed {
		t.Errorf("a record without subcharts became a module:\n%s", out)
	}
	expectAll(t, out, "has subcharts (cache 0.1.0)", "--chart")
	packed := fetchtest.Chart(t, parentRelease)
	registry := fetchtest.Registry(t, true, packed)
	login := []string{"--username", fetchtest.User, "--password", fetchtest.Password}
	for _, from := range [][]string{{"--repo", fetchtest.Repository(t, true, packed)}, {"--chart", registry + "/parent", "--plain-http"}, {"--repo", registry, "--plain-http"}} {
		args := append([]string{"parent", "--dry-run"}, from...)
		out, failed := p.importRelease(args...)
		if expectAll(t, out, "was installed from the chart parent 1.0.0: "); !failed {
			t.Errorf("%q let in without a password", args)
		}
		out, failed = p.importRelease(append(args, login...)...)
		if expectAll(t, out, "would be written to", "its release would be adopted"); failed {
			t.Error(out)
		}
	}
	for _, args := range [][]string{{"parent", "--chart", parent}, {"leaves"}} {
		out, failed := p.importRelease(args...)
		if failed || !strings.Contains(out, "its release would be adopted") {
			t.Fatalf("import %q:\n%s", args, out)
		}
	}
	if got := h.read("modules/020-parent/module.yaml"); !strings.HasSuffix(got, "\nchart:\n  name: parent\n  version: 1.0.0\nnamespace: "+p.namespace+"\n") {
		t.Errorf("module.yaml:\n%s", got)
	}
	if plan := h.command("plan", "."); strings.Count(plan, "its release would be adopted: revision 1") != 3 || !strings.Contains(plan, "Objects: 0 to create, 0 to change, 0 to delete") {
		t.Errorf("plan:\n%s", plan)
	}
	if after := p.deployed(); !maps.Equal(before, after) {
		t.Errorf("the import has written: %v, before %v", after, before)
	}

	o := h.start().ready()
	for _, name := range []string{"plain", "parent", "leaves"} {
		o.expect("INFO release", "action=adopted", "module="+name)
	}
	if after := p.deployed(); !maps.Equal(before, after) {
		t.Errorf("the first run has written: %v, before %v", after, before)
	}
	expectAll(t, h.command("plan"), "Nothing would be done. Modules: 3 unchanged")
	if out, failed := p.importRelease("plain"); !failed || !strings.Contains(out, "the module plain exists already, in DIR/modules/010-plain") {
		t.Errorf("it is a module:\n%s", out)
	}

	h.setConfig(map[string]string{"plain": "text: edited\n", "parentEnabled": "false"})
	h.eventually("what is edited and what is off", func() error {
		now := p.deployed()
		if now["release plain"] != " 1 superseded 2 deployed" || now["release parent"] != "" || now["ConfigMap parent-sub"] != "" {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
	if got := p.text("plain", "text") + p.text("plain", "revision"); got != "edited2" {
		t.Errorf("the module renders %q, want edited2", got)
	}
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	h.remove("modules/010-plain")
	if out, failed := p.importRelease("plain"); !failed || !strings.Contains(out, "labels of an addon-operator, which manages it already") {
		t.Errorf("it is the release of a module:\n%s", out)
	}
}

// replacing is a post renderer of helm.
type replacing struct{ old, new string }

// Run implements postrender.PostRenderer.
func (r replacing) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	return bytes.NewBufferString(strings.ReplaceAll(rendered.String(), r.old, r.new)), nil
}

// Where the module does not render what is deployed, the import says so, with the difference; the first run upgrades.
// The records are in ConfigMaps, and in the namespace of the operator. Issue 16, 2.3.
func TestImportOfAReleaseThatDiffers(t *testing.T) {
	h := newFixture(t, "-- charts/none --\n")
	p := person{fixture: h, namespace: h.namespace, driver: "configmap", postRenderer: replacing{"mine", "changed by a post renderer"}}
	p.install("plain", plainRelease, "text: mine\n")
	p.postRenderer = nil
	p.install("same", plainRelease, "text: mine\n")
	before := p.deployed()
	if out, failed := p.importRelease("same"); failed || !strings.Contains(out, "its release would be adopted") {
		t.Fatal(out)
	}
	out, failed := p.importRelease("plain")
	if failed {
		t.Fatal(out)
	}
	expectAll(t, out, "upgrade plain", "revision 1 has no checksum of the operator", "text: changed by a post renderer", "text: mine")
	h.start("HELM_DRIVER=configmap").ready()
	after := p.deployed()
	if after["release same"] != before["release same"] || after["ConfigMap same"] != before["ConfigMap same"] {
		t.Errorf("%v; before %v", after, before)
	}
	if after["release plain"] != " 1 superseded 2 deployed" || p.text("plain", "text") != "mine" {
		t.Errorf("the release that differs was not upgraded: %v", after)
	}
}

// What cannot be taken over is refused, with the reason and the way out, and nothing is written. Issue 16, 2.3.
func TestImportRefuses(t *testing.T) {
	h := newFixture(t, "-- modules/010-taken/templates/none.yaml --\n-- charts/none --\n")
	p := h.helm()
	p.install("plain", plainRelease, "")
	p.install("with.dots", strings.ReplaceAll(plainRelease, "name: plain", "name: dots"), "")
	other := p.install("other", strings.ReplaceAll(plainRelease, "1.2.3", "2.0.0"), "")
	for release, status := range map[string]string{"pending": "pending-upgrade", "failed": "failed"} {
		p.install(release, plainRelease, "")
		p.setStatus(release, status)
	}
	elsewhere := h.helm()
	nobody, weak := p, *h
	weak.kubeconfig, nobody.fixture = h.serviceAccount("nobody"), &weak
	for _, refused := range []struct {
		person
		args []string
		want []string
	}{
		{p, []string{"with.dots"}, []string{"release with.dots cannot become a module", "no command of Helm renames one"}},
		{p, []string{"taken"}, []string{"the module taken exists already"}},
		{p, []string{"pending"}, []string{"revision 1, has the status pending-upgrade", "wait if Helm is working on it"}},
		{p, []string{"failed"}, []string{"has the status failed", "helm rollback"}},
		{p, []string{"plain", "--chart", other}, []string{"was installed from the chart plain 1.2.3: ", "has the version 2.0.0"}},
		{p, []string{"plain", "--chart", "./no-such-chart"}, []string{"no-such-chart"}},
		{p, []string{"plain", "--password", "secret"}, []string{"flags that set how a chart is fetched need --chart or --repo"}},
		{p, []string{"plain", "other"}, []string{"needs the name of one release"}},
		{elsewhere, []string{"plain"}, []string{"release plain: there is no such release in namespace NAMESPACE, in secrets"}},
		{nobody, []string{"plain"}, []string{"secrets", "is forbidden"}},
	} {
		out, failed := refused.importRelease(refused.args...)
		if !failed || strings.Contains(out, "The first run") {
			t.Errorf("import %q succeeded:\n%s", refused.args, out)
		}
		expectAll(t, out, refused.want...)
	}
	entries, err := os.ReadDir(h.path("modules"))
	if names := fmt.Sprint(entries); err != nil || len(entries) != 1 {
		t.Errorf("left in the modules directory: %s, %v", names, err)
	}
}

// setStatus changes the newest record of a release, as an interrupted Helm leaves it.
func (p person) setStatus(release, status string) {
	p.t.Helper()
	secrets := p.client.CoreV1().Secrets(p.namespace)
	list, err := secrets.List(p.ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + release})
	if err != nil || len(list.Items) != 1 {
		p.t.Fatalf("%d records, %v", len(list.Items), err)
	}
	record := list.Items[0]
	record.Labels["status"] = status
	must(p.t, second(secrets.Update(p.ctx, &record, metav1.UpdateOptions{})))
}
