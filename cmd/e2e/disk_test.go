package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	expectAll(t, o.command("module", "list"), "changed on disk, but not in force")
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
	expectAll(t, out, "files of web have changed on disk since they were loaded; this plan uses the new ones", "+  size: large", "global values have changed on disk")
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
