package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// worktree writes a commit as git-sync checks it out, next to others.
func (h *fixture) worktree(hash, template string) {
	dir := "git/.worktrees/" + hash
	h.write(dir+"/global-hooks/.gitkeep", "")
	h.write(dir+"/modules/values.yaml", "webEnabled: true\nweb: {size: of-"+hash+"}\n")
	h.write(dir+"/modules/010-web/templates/cm.yaml", template)
}

// flip points the link of git-sync at another worktree, as it does: a new link takes the place of the old one.
func (h *fixture) flip(hash string) {
	h.t.Helper()
	must(h.t, os.Symlink(filepath.Join(".worktrees", hash), h.path("git/link.tmp")))
	h.rename("git/link.tmp", "git/current")
}

// P8, docs/delivery.md: git-sync brings commits. One is in force as a whole after the flip of the link, the same
// object and one more revision; one that does not load is not, and going back is another flip. The old worktree may
// go after that.
func TestDeliveryByGit(t *testing.T) {
	h := newFixture(t, "-- a --\n")
	const template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {size: {{ .Values.web.size }}, in: \"1\"}\n"
	h.worktree("aaa", template)
	h.flip("aaa")
	o := h.start("ADDON_OPERATOR_WATCH_MODULES=yes", "MODULES_DIR="+h.path("git/current/modules"), "GLOBAL_HOOKS_DIR="+h.path("git/current/global-hooks")).ready()
	h.awaitConfigMap("web", "size", "of-aaa")
	uid := h.configMapUID("web")

	h.worktree("bbb", strings.Replace(template, `"1"`, `"2"`, 1))
	h.flip("bbb")
	h.awaitConfigMap("web", "size", "of-bbb")
	h.awaitConfigMap("web", "in", "2")
	h.remove("git/.worktrees/aaa")
	h.awaitRevisions("web", "1:superseded 2:deployed")

	h.worktree("ccc", "{{ .Values")
	h.flip("ccc")
	h.remove("git/.worktrees/bbb")
	h.awaitEvent("ModuleProblem", "module web: changed on disk, but not in force", "templates/cm.yaml:1: unclosed action")
	if data := h.configMap("web"); data["in"] != "2" {
		t.Errorf("a commit that does not load is in force: %v", data)
	}
	h.worktree("aaa", template)
	h.flip("aaa") // git revert
	h.awaitConfigMap("web", "size", "of-aaa")
	h.awaitConfigMap("web", "in", "1")
	if now := h.configMapUID("web"); now != uid {
		t.Errorf("the object was made again: %s, was %s", now, uid)
	}
	if n := o.count("release", "action=installed"); n != 1 {
		t.Errorf("installed %d times", n)
	}
}

// A real API server accepts all objects of the chart, field by field, with each of its switches and each way of
// delivery.
func TestOperatorChartIsAccepted(t *testing.T) {
	h := newFixture(t, "-- a --\n")
	for _, values := range []string{
		"",
		"replicas: 3\nsecureMetrics: {enabled: true}\nserviceMonitor: {create: true}\ndashboard: {create: true}\ninitialConfig: {global: {a: 1}}\nopenshift: true",
		"podMonitor: {create: true}\nprometheusRule: {create: true}\nhostNetwork: true\ndnsPolicy: None\ndnsConfig: {nameservers: [10.0.0.10]}",
		"commonLabels: {team: a}\nenvFrom: [{configMapRef: {name: cloud}}]\nimage: {repository: r, digest: 'sha256:" + strings.Repeat("0a", 32) + "'}\n" +
			"topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]\npriorityClassName: system-cluster-critical\n" +
			"networkPolicy: {create: true, from: [{namespaceSelector: {matchLabels: {a: b}}}]}\npodDisruptionBudget: {create: true}",
		"modules: {source: artifact, artifact: {reference: example.com/modules:v1, path: prod, mount: volume}}",
		"modules: {source: artifact, artifact: {reference: example.com/modules:v1, mount: copy}}",
		"modules: {source: git, git: {repository: git@example.com:ours/modules.git, ref: prod, path: a/b, auth: ssh, secret: git}}",
		"modules: {source: git, watch: false, git: {repository: 'https://example.com/modules.git', auth: basic, secret: git}}",
		"modules: {source: image, watch: true}",
	} {
		objects := h.operatorChart(values)
		if len(objects) < 8 {
			t.Errorf("the chart has %d objects", len(objects))
		}
		h.apply(objects, true)
	}
}

// operatorChart are the objects of the Deployment's chart that a cluster without other kinds has. The definition of
// Module is left out: other tests have it.
func (h *fixture) operatorChart(values string) (objects []*unstructured.Unstructured) {
	h.t.Helper()
	chart, err := loader.LoadDir("../../deploy/chart")
	must(h.t, err)
	tree := map[string]any{}
	must(h.t, yaml.Unmarshal([]byte(values), &tree))
	all, err := chartutil.ToRenderValues(chart, tree, chartutil.ReleaseOptions{Name: "operator", Namespace: h.namespace, IsInstall: true}, chartutil.DefaultCapabilities)
	must(h.t, err)
	files, err := engine.Render(chart, all)
	if err != nil {
		h.t.Fatalf("%s: %v", values, err)
	}
	for path, text := range files {
		if !strings.HasSuffix(path, ".yaml") {
			continue
		}
		for document := range strings.SplitSeq(text, "\n---\n") {
			var o unstructured.Unstructured
			if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
				h.t.Fatalf("%s: %v\n%s", path, err, document)
			}
			group := o.GroupVersionKind().Group
			if o.Object != nil && group != "monitoring.coreos.com" && group != "apiextensions.k8s.io" {
				objects = append(objects, &o)
			}
		}
	}
	return objects
}
