package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/postrender"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

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
{apiVersion: imported.example.com/v1, kind: Leaf, metadata: {name: "{{ .Release.Name }}"}}
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

// move runs the bash blocks of a section of docs/charts.md whose numbers are given, word by word but for the names in
// capitals.
func (h *fixture) move(section string, names *strings.Replacer, numbers ...int) {
	h.t.Helper()
	found := blocks(page(h.t, "charts.md", section), "bash")
	for _, i := range numbers {
		typed(h.t, names.Replace(found[i]), "KUBECONFIG="+h.kubeconfig)
	}
}

// someonesKind defines a kind of another tool, as it is but for its schema, and an object of it.
func (h *fixture) someonesKind(group, version, kind, plural, object string) {
	h.write("crd.yaml", fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.%s}\nspec:\n  group: %s\n  scope: Namespaced\n  names: {plural: %s, kind: %s}\n"+
		"  versions: [{name: %s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]\n", plural, group, group, plural, kind, version))
	name := plural + "." + group
	h.t.Cleanup(func() { _ = h.tryIn(context.Background(), "delete", "crd", name, "--wait=false") })
	h.kubectl("apply", "-f", h.path("crd.yaml"))
	h.write("object.yaml", object)
	h.eventually(kind, func() error { return h.try("apply", "-n", h.namespace, "-f", h.path("object.yaml")) })
}

const movingChart = `-- Chart.yaml --
{apiVersion: v2, name: web, version: 1.0.0}
-- values.yaml --
color: red
-- templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: web, labels: {app.kubernetes.io/managed-by: Helm}}, data: {color: {{ .Values.color }}}}
`

// The steps of docs/charts.md: Argo CD has applied the objects of a chart. The first run adopts them, and they stay
// when the Application is deleted.
func TestMovingFromArgoCD(t *testing.T) {
	h := newFixture(t, "-- modules/values.yaml --\nwebEnabled: true\n")
	for name, text := range map[string]string{"Chart.yaml": "{apiVersion: v2, name: web, version: 1.0.0}\n", "values.yaml": "color: red\n"} {
		h.write("modules/010-web/chart/"+name, text)
	}
	_, template, _ := strings.Cut(movingChart, "-- templates/a.yaml --\n")
	h.write("modules/010-web/chart/templates/a.yaml", template)
	h.write("applied.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, labels: {app.kubernetes.io/managed-by: Helm, app.kubernetes.io/instance: web}, annotations: {argocd.argoproj.io/tracking-id: web}}, data: {color: red}}\n")
	h.kubectl("apply", "-n", h.namespace, "-f", h.path("applied.yaml"))
	h.someonesKind("argoproj.io", "v1alpha1", "Application", "applications", `{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: web, finalizers: [resources-finalizer.argocd.argoproj.io]}, spec: {syncPolicy: {automated: {prune: true, selfHeal: true}}}}`)
	names := strings.NewReplacer("NAME", "web", "-n argocd", "-n "+h.namespace)
	maps := h.client.CoreV1().ConfigMaps(h.namespace)
	before, err := maps.Get(h.ctx, "web", metav1.GetOptions{})
	must(t, err)
	h.move("Moving from Argo CD", names, 0)
	h.start().ready()
	h.awaitRevisions("web", "1:deployed")
	h.move("Moving from Argo CD", names, 1)
	if h.try("get", "-n", h.namespace, "applications.argoproj.io", "web") == nil {
		t.Error("the Application is there")
	}
	after, err := maps.Get(h.ctx, "web", metav1.GetOptions{})
	must(t, err)
	if after.UID != before.UID || after.Annotations["meta.helm.sh/release-name"] != "web" || after.Annotations["argocd.argoproj.io/tracking-id"] != "web" {
		t.Errorf("the object is %v", after.ObjectMeta)
	}
}

// The steps of docs/charts.md: Flux has installed a release, whose records lie in the namespace of the HelmRelease.
// The first run of the module that is imported is a no-op, and the HelmRelease goes without it.
func TestMovingFromFlux(t *testing.T) {
	h := newFixture(t, "-- modules/values.yaml --\nwebEnabled: true\n")
	p := h.helm()
	p.install("web", movingChart, "color: blue")
	h.someonesKind("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases", `{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {name: web, finalizers: [finalizers.fluxcd.io]}, spec: {releaseName: web}}`)
	// Flux has the records in another namespace.
	records := h.client.CoreV1().Secrets(p.namespace)
	list, err := records.List(h.ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=web"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d records, %v", len(list.Items), err)
	}
	record := list.Items[0].DeepCopy()
	record.ObjectMeta = metav1.ObjectMeta{Name: record.Name, Labels: record.Labels}
	must(t, second(h.client.CoreV1().Secrets(h.namespace).Create(h.ctx, record, metav1.CreateOptions{})))
	must(t, records.Delete(h.ctx, record.Name, metav1.DeleteOptions{}))
	names := strings.NewReplacer("TARGETNAMESPACE", p.namespace, "NAMESPACE", h.namespace, "NAME", "web", "RELEASE", "web")
	h.move("Moving from Flux HelmRelease", names, 0, 1)
	h.command("import", "release", "web", "--namespace", p.namespace)
	if dirs, _ := filepath.Glob(h.path("modules/*-web")); len(dirs) != 1 {
		t.Fatalf("modules %v", dirs)
	}
	h.start().ready()
	h.move("Moving from Flux HelmRelease", names, 2)
	if h.try("get", "-n", h.namespace, "helmreleases.helm.toolkit.fluxcd.io", "web") == nil {
		t.Error("the HelmRelease is there")
	}
	list, err = records.List(h.ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=web"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Labels["moduleRevision"] != "1" {
		t.Errorf("%v: the first run has made a revision, or none was adopted; records %v", err, list.Items)
	}
	if cm, err := h.client.CoreV1().ConfigMaps(p.namespace).Get(h.ctx, "web", metav1.GetOptions{}); err != nil || cm.Data["color"] != "blue" {
		t.Errorf("%v, %v", cm, err)
	}
}

// This file proves docs/upgrading.md: what an older version has left in a cluster, the next one takes over as it is.

// state is what an operator leaves in its namespace, as testdata/state has it: NAMESPACE stands for the namespace,
// and records of releases are JSON that a person can read.
type state struct {
	ConfigMaps []corev1.ConfigMap `json:"configMaps"`
	Secrets    []corev1.Secret    `json:"secrets"`
}

const placeOfNamespace = "NAMESPACE"

// readState reads what is in the namespace, without what the API server has added.
func (h *fixture) readState() (s state) {
	h.t.Helper()
	maps, err := h.client.CoreV1().ConfigMaps(h.namespace).List(h.ctx, metav1.ListOptions{})
	must(h.t, err)
	secrets, err := h.client.CoreV1().Secrets(h.namespace).List(h.ctx, metav1.ListOptions{})
	must(h.t, err)
	plain := func(m metav1.ObjectMeta) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: m.Name, Labels: m.Labels, Annotations: m.Annotations}
	}
	for _, cm := range maps.Items {
		if cm.Name != "kube-root-ca.crt" {
			s.ConfigMaps = append(s.ConfigMaps, corev1.ConfigMap{ObjectMeta: plain(cm.ObjectMeta), Data: cm.Data})
		}
	}
	for _, secret := range secrets.Items {
		texts := map[string]string{}
		for key, data := range secret.Data {
			if texts[key] = string(data); isRelease(secret) {
				texts[key] = h.unpackRecord(data)
			}
		}
		s.Secrets = append(s.Secrets, corev1.Secret{ObjectMeta: plain(secret.ObjectMeta), Type: secret.Type, StringData: texts})
	}
	return s
}

func isRelease(s corev1.Secret) bool { return s.Type == "helm.sh/release.v1" }

// unpackRecord and packRecord know Helm's form of a record: JSON, zipped, in base64.
func (h *fixture) unpackRecord(data []byte) string {
	h.t.Helper()
	zipped, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(data)))
	must(h.t, err)
	text, err := io.ReadAll(zipped)
	must(h.t, err)
	return string(text)
}

func (h *fixture) packRecord(text string) string {
	h.t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	must(h.t, second(io.WriteString(zipped, text)))
	must(h.t, zipped.Close())
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

// writeState creates what a version has left.
func (h *fixture) writeState(file string) {
	h.t.Helper()
	text, err := os.ReadFile(file)
	must(h.t, err)
	var s state
	must(h.t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(string(text), placeOfNamespace, h.namespace)), &s))
	for _, cm := range s.ConfigMaps {
		must(h.t, second(h.client.CoreV1().ConfigMaps(h.namespace).Create(h.ctx, &cm, metav1.CreateOptions{})))
	}
	for _, secret := range s.Secrets {
		if isRelease(secret) {
			secret.StringData["release"] = h.packRecord(secret.StringData["release"])
		}
		must(h.t, second(h.client.CoreV1().Secrets(h.namespace).Create(h.ctx, &secret, metav1.CreateOptions{})))
	}
}

// standing is what a take-over must leave as it is: revisions of releases, the objects of modules, down to their
// resourceVersion, and what the ConfigMap says.
func (h *fixture) standing() string {
	h.t.Helper()
	var text strings.Builder
	for _, name := range []string{"site", "plain", "asked"} {
		cm, err := h.client.CoreV1().ConfigMaps(h.namespace).Get(h.ctx, name, metav1.GetOptions{})
		must(h.t, err)
		fmt.Fprintf(&text, "%s: revisions %s, object %s version %s %v\n", name, h.revisions(name), cm.UID, cm.ResourceVersion, cm.Data)
	}
	config := h.config()
	for _, key := range slices.Sorted(maps.Keys(config)) {
		fmt.Fprintf(&text, "ConfigMap %s: %s\n", key, config[key])
	}
	return text.String()
}

// What older versions have left, one file for each in testdata/state, is taken over by this one: no release gets a
// revision, no object is written, no values change. Hooks run as at each start. The releases belong to this
// version: when a module goes, its release is purged. P2, H1.
func TestStateOfOlderVersionsIsTakenOver(t *testing.T) {
	files, err := filepath.Glob("testdata/state/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no state: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			h := newFixture(t, "taken_over")
			h.writeState(file)
			before := h.standing()
			o := h.start().ready()
			if after := h.standing(); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			h.awaitJournal("before")
			expectAll(t, o.command("values", "explain", "site"), `site.size`, `3`, "ConfigMap", "blue")
			o.terminate()

			h.remove("modules/020-plain")
			h.start().ready()
			h.awaitRevisions("plain", "")
			if data := h.configMap("plain"); data != nil {
				t.Errorf("the object of the purged release is still there: %v", data)
			}
			if site, asked := h.revisions("site"), h.revisions("asked"); site == "" || asked == "" {
				t.Errorf("the other releases are %q and %q", site, asked)
			}
		})
	}
}

// An older program, this one and the older one again work on one namespace: the way forth and the way back. It needs
// an older program, as OLDER_PROGRAM=/path OLDER_VERSION=v0.1.0; what it leaves becomes the state in testdata/state of
// that version.
func TestForthAndBack(t *testing.T) {
	older, version := os.Getenv("OLDER_PROGRAM"), os.Getenv("OLDER_VERSION")
	if older == "" || version == "" {
		t.Skip("needs OLDER_PROGRAM, the path of an older addon-operator, and OLDER_VERSION, its name")
	}
	h := newFixture(t, "taken_over")
	h.setConfig(map[string]string{"site": "size: 3\n"})
	startOlder := func() *operator {
		h.within = []string{"sh", "-c", `exec "` + older + `"`}
		defer func() { h.within = nil }()
		return h.start()
	}
	startOlder().ready().terminate()
	text, err := yaml.Marshal(h.readState())
	must(t, err)
	text = bytes.ReplaceAll(text, []byte(h.namespace), []byte(placeOfNamespace))
	must(t, os.WriteFile("testdata/state/"+version+".yaml", text, 0o644))
	before := h.standing()
	h.start().ready().terminate()
	if forth := h.standing(); forth != before {
		t.Errorf("before:\n%s\nforth:\n%s", before, forth)
	}
	startOlder().ready().terminate()
	if back := h.standing(); back != before {
		t.Errorf("before:\n%s\nback:\n%s", before, back)
	}
}
