package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// newHook writes what it runs for into the journal.
const newHook = `#!/usr/bin/env bash
[[ ${1:-} == --config ]] && { echo "{configVersion: v1, onStartup: 1, kubernetes: [{name: maps, kind: ConfigMap, nameSelector: {matchNames: [seen]}, namespace: {nameSelector: {matchNames: [$NAMESPACE]}}}]}"; exit; }
jq -r '.[] | "new-" + .binding + (.type // "")' "$BINDING_CONTEXT_PATH" >> "$OUT/journal"
`

// P8: with the watch, what is on disk is in force a moment after it was written: a template, values, a hook, a
// module. What is broken is not, and is shown everywhere; the release stays through all of it.
func TestDiskIsLive(t *testing.T) {
	h := newFixture(t, "web")
	o := h.start("ADDON_OPERATOR_WATCH_MODULES=yes").ready()
	uid := h.configMapUID("web")

	template := strings.Replace(h.read("modules/010-web/templates/cm.yaml"), "\ndata:", "\ndata:\n  more: one", 1)
	h.write("modules/010-web/templates/cm.yaml", template)
	h.awaitConfigMap("web", "more", "one")
	h.write("modules/010-web/values.yaml", "web: {size: large, unused: 1}\n")
	h.awaitConfigMap("web", "size", "large")
	h.awaitRevisions("web", "1:superseded 2:superseded 3:deployed")

	h.write("modules/010-web/hooks/new.sh", newHook)
	h.awaitLine("out/journal", "new-mapsSynchronization")
	h.createConfigMap("seen", "a", nil)
	h.awaitLine("out/journal", "new-mapsEvent")
	h.awaitRevisions("web", "1:superseded 2:superseded 3:deployed")

	// A typo together with a template: neither is in force, and all say which file it is.
	h.write("modules/010-web/values.yaml", "web: {size: [\n")
	h.write("modules/010-web/templates/cm.yaml", strings.Replace(template, "one", "two", 1))
	h.awaitEvent("ModuleProblem", "module web: changed on disk, but not in force", "010-web/values.yaml", "line ")
	// While the module runs, which each of the two files causes, the list says that.
	h.shows("the list", func() string { return o.command("module", "list") }, "changed on disk, but not in force")
	expectAll(t, o.command("module", "list", "-o", "json"), "010-web/values.yaml: line")
	h.write("modules/010-web/hooks/new.sh", "#!/bin/bash\necho '{configVersion: v1, onStartUp: 1}'")
	h.write("modules/010-web/values.yaml", "web: {size: medium, unused: 1}\n")
	h.awaitEvent("ModuleProblem", "module web: changed on disk, but not in force", "hooks/new.sh", "did you mean onStartup?")
	h.setConfig(map[string]string{"global": "any: text"})
	o.expect("converged", "cause=ConfigMap")
	if data := h.configMap("web"); data["size"] != "large" || data["more"] != "one" {
		t.Errorf("what does not load is in force: %v", data)
	}
	h.remove("modules/010-web/hooks/new.sh")
	h.awaitConfigMap("web", "size", "medium")
	h.awaitConfigMap("web", "more", "two")
	h.eventually("no problem any more", func() error {
		if list := o.command("module", "list"); strings.Contains(list, "changed on disk") {
			return fmt.Errorf("%s", list)
		}
		return nil
	})

	h.write("modules/020-self/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: self}\ndata: {a: b}\n")
	h.write("modules/values.yaml", "webEnabled: true\nselfEnabled: true\n")
	h.awaitConfigMap("self", "a", "b")
	if now := h.configMapUID("web"); now != uid {
		t.Errorf("the object was made again: %s, was %s", now, uid)
	}
}

// P8: without the watch nothing is in force before a reload, and what people are shown says so.
func TestDiskChangedSince(t *testing.T) {
	h := newFixture(t, "web")
	o := h.start().ready()
	h.write("modules/010-web/values.yaml", "web: {size: large, unused: 1}\n")
	says := "changed on disk since it was loaded: 010-web"
	expectAll(t, o.command("module", "list", "-o", "json"), says, "the change takes effect at the next reload of all modules")
	expectAll(t, o.command("module", "list"), "changed on disk since")
	expectAll(t, o.command("values", "explain", "web.size"), "small", says)
	expectAll(t, o.command("why", "web"), says)
	h.write("modules/values.yaml", "webEnabled: true\nglobal: {any: file}\n")
	h.write("modules/020-later/templates/cm.yaml", "")
	_, page := get(o.public + "/")
	expectAll(t, page, "<b>global hooks</b>: changed on disk since it was loaded")
	expectAll(t, o.command("module", "list", "-o", "json"), "the module later in 020-later is new; the change takes effect at the next reload")
	out, _, _ := h.plan(o.env)
	expectAll(t, out, "files of web have changed on disk since they were loaded; this plan uses the new ones", "+  size: large", "files of global-hooks have changed on disk")
	h.setConfig(map[string]string{"global": "any: text"})
	h.awaitConfigMap("web", "size", "large")
	if list := o.command("module", "list"); strings.Contains(list, "changed on disk") {
		t.Errorf("in force, and shown as if it was not:\n%s", list)
	}
	if explained := o.command("values", "explain", "web.size"); !strings.Contains(explained, "large") || strings.Contains(explained, "changed on disk") {
		t.Errorf("explained as %s", explained)
	}
}

// configMapUID is that of a ConfigMap of the fixture.
func (h *fixture) configMapUID(name string) string {
	h.t.Helper()
	cm, err := h.client.CoreV1().ConfigMaps(h.namespace).Get(h.ctx, name, metav1.GetOptions{})
	must(h.t, err)
	return string(cm.UID)
}

// A crash leaves a template of zeros, and an unfinished copy a subchart without its templates: no object is deleted,
// neither while the operator runs nor after a restart, and it says which file to restore. P8.
func TestLostContentDeletesNothing(t *testing.T) {
	h := newFixture(t, "web")
	template := func(name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {a: b}\n"
	}
	h.write("modules/values.yaml", "webEnabled: true\nappEnabled: true\n")
	h.write("modules/020-app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n")
	h.write("modules/020-app/templates/a.yaml", template("app-a"))
	h.write("modules/020-app/templates/b.yaml", template("app-b"))
	h.write("modules/020-app/charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n")
	h.write("modules/020-app/charts/sub/templates/c.yaml", template("app-c"))
	o := h.start().ready()
	h.awaitRevisions("app", "1:deployed")

	h.write("modules/020-app/templates/b.yaml", strings.Repeat("\x00", 100))
	h.setConfig(map[string]string{"global": "any: change"})
	o.expect("WARN", "module app: changed on disk, but not in force", "020-app/templates/b.yaml is empty, but it had content")
	o.expect("converged", "modules=2")
	expectAll(t, o.command("module", "list", "-o", "json"), "020-app/templates/b.yaml is empty, but it had content; restore it, or remove the file")
	o.terminate()
	h.write("modules/020-app/templates/b.yaml", "\n\n")
	o = h.start()
	o.expect("ERROR task failed", "module=app", "templates/b.yaml of the chart in", "is empty, but revision 1 was made with its content")
	o.terminate()

	h.write("modules/020-app/templates/b.yaml", template("app-b"))
	h.rename("modules/020-app/charts/sub/templates", "away")
	o = h.start()
	o.expect("ERROR task failed", "module=app", "charts/sub/templates/ of the chart in", "has no files, but revision 1 was made with some")
	h.rename("away", "modules/020-app/charts/sub/templates")
	o.ready()
	h.awaitRevisions("app", "1:deployed")
	for _, name := range []string{"app-a", "app-b", "app-c"} {
		if h.configMap(name) == nil {
			t.Errorf("%s is gone", name)
		}
	}
	h.remove("modules/020-app/templates/b.yaml") // on purpose
	h.setConfig(map[string]string{"global": "any: other change"})
	h.awaitObject(false, "configmaps", "app-b")
}

// switched is a repository in two versions, below a link as git-sync makes it. The second version renames the value
// that keeps a claim.
const switched = `
-- old/values.yaml --
firstEnabled: true
storeEnabled: true
-- old/010-first/hooks/wait.sh --
FIRST
-- old/020-store/values.yaml --
store: {version: old, app: {persistence: true}}
-- old/020-store/templates/claim.yaml --
{{ if dig "persistence" false .Values.store.app }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: store}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
{{ end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: store}
data: {made: "old {{ .Values.store.version }} {{ .Values.store.hook }}"}
-- old/020-store/hooks/set.sh --
#!/usr/bin/env bash
[[ ${1:-} == --config ]] && { echo '{configVersion: v1, beforeHelm: 1}'; exit; }
SECOND
[[ -z ${NAMES-} ]] || echo '{"op": "add", "path": "/store/app/persistence", "value": true}' > "$VALUES_JSON_PATCH_PATH"
echo '{"op": "add", "path": "/store/hook", "value": "old"}' >> "$VALUES_JSON_PATCH_PATH"
`

// waits is a part of a hook: it waits until the test opens the gate, if there is one.
const waits = `if [[ -p $OUT/gate ]]; then echo waits >> "$OUT/journal"; read -r _ < "$OUT/gate"; fi`

// P8: a root that is a link is switched while a reload runs: nothing is installed of a mixture of two versions,
// whether the values come from files or from a hook, and whether a hook of another module or of this one runs
// meanwhile. The claim that the value keeps stays.
func TestSwitchedRoot(t *testing.T) {
	const first = "#!/usr/bin/env bash\n[[ ${1:-} == --config ]] && { echo '{configVersion: v1, beforeHelm: 1}'; exit; }\n"
	for name, c := range map[string]struct{ first, second, values string }{
		"before the run":       {waits, "", "true"},
		"during its own hooks": {"", waits, "true"},
		"values of a hook":     {"", waits, ""},
	} {
		t.Run(name, func(t *testing.T) {
			archive := strings.NewReplacer("FIRST", first+c.first+"\ntrue", "SECOND", c.second).Replace(switched)
			if c.values == "" { // hooks alone set it
				archive = strings.NewReplacer("app: {persistence: true}", "app: {}", "[[ -z ${NAMES-} ]] || ", "", "version: old", "version: any").Replace(archive)
			}
			h := newFixture(t, archive)
			h.writeVersion("new", strings.NewReplacer("persistence", "storage", "old", "new"))
			h.switchTo("old")
			o := h.start("MODULES_DIR=" + h.path("current")).ready()
			claims := h.client.CoreV1().PersistentVolumeClaims(h.namespace)
			claim, err := claims.Get(h.ctx, "store", metav1.GetOptions{})
			must(t, err)
			must(t, syscall.Mkfifo(h.path("out/gate"), 0o600))
			h.setConfig(map[string]string{"global": "any: text"})
			h.awaitLine("out/journal", "waits")
			h.switchTo("new")
			gate, err := os.OpenFile(h.path("out/gate"), os.O_RDWR, 0)
			must(t, err)
			defer gate.Close()
			h.remove("out/gate") // the next run does not wait
			must(t, second(gate.WriteString("go\n")))
			want := "new new new"
			if c.values == "" {
				want = "new any new"
			}
			h.awaitConfigMap("store", "made", want)
			h.awaitRevisions("store", "1:superseded 2:deployed") // so there was none of a mixture
			o.expect("task failed, will retry", "nothing is installed of a mixture of both")
			if now, err := claims.Get(h.ctx, "store", metav1.GetOptions{}); err != nil || now.UID != claim.UID || now.DeletionTimestamp != nil {
				t.Errorf("the claim was deleted: %v, %v", now, err)
			}
		})
	}
}

// writeVersion writes another version of the files in old.
func (h *fixture) writeVersion(version string, edit *strings.Replacer) {
	h.t.Helper()
	err := filepath.WalkDir(h.path("old"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(h.path("old"), path)
			h.write(filepath.Join(version, name), edit.Replace(h.read(filepath.Join("old", name))))
		}
		return err
	})
	must(h.t, err)
}

// switchTo points the link of the root to a version, as one step.
func (h *fixture) switchTo(version string) {
	h.t.Helper()
	must(h.t, os.Symlink(version, h.path("next")))
	h.rename("next", "current")
}

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
