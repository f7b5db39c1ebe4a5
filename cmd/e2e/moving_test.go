package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
