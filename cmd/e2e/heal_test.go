package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// A deleted object of a release is back a moment later; metrics and the dump tell of it.
// Event 15, H13, I2.
func TestDeletedObjectIsBack(t *testing.T) {
	h := newFixture(t, "web")
	o := h.start().ready()
	h.awaitRevisions("web", "1:deployed")
	began := time.Now()
	if err := h.client.CoreV1().ConfigMaps(h.namespace).Delete(h.ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.awaitConfigMap("web", "size", "small")
	t.Logf("healed after %v", time.Since(began).Round(time.Millisecond))
	o.expect("release is not as the module left it", "module=web", "HelmResourcesAbsent", "ConfigMap "+h.namespace+"/web")
	h.awaitJournal(startedJournal + " beforeHelm afterHelm")
	o.metric("addon_operator_modules_absent_resources_total", `module="web"`)
	o.metric("addon_operator_modules_helm_release_redeployed_total", `module="web"`)
	if dump := o.dump(); !strings.Contains(dump, "watches: 1, objects: 1") {
		t.Errorf("the dump does not show the healer:\n%s", dump)
	}
}

// An object that a person deletes while afterHelm hooks run is back when they have ended; what such a hook takes away
// itself is brought back once, and not again. H13.
func TestDeletedWhileAfterHelmHooksRun(t *testing.T) {
	h := newFixture(t, "web")
	h.write("modules/010-web/templates/job.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: done}\ndata: {a: b}\n")
	h.write("modules/010-web/hooks/z.sh", `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "afterHelm": 1}'; exit; fi
kubectl -n $NAMESPACE delete configmap done --ignore-not-found --wait=true >&2
echo z >> "$OUT/z"
while [[ -e $OUT/hold ]]; do sleep 0.05; done
`)
	o := h.start().ready()
	runs := func(n int) {
		t.Helper()
		h.eventually(fmt.Sprintf("%d runs of the hook", n), func() error {
			if got := strings.Count(h.read("out/z"), "z"); got != n {
				return fmt.Errorf("there were %d", got)
			}
			return nil
		})
	}
	o.expect("the module runs again", "ConfigMap "+h.namespace+"/done")
	runs(2)

	h.write("out/hold", "")
	h.setConfig(map[string]string{"web": "size: large"})
	runs(3)
	h.deleteConfigMap("web")
	h.remove("out/hold")
	o.expect("the module runs again", "ConfigMap "+h.namespace+"/web")
	h.awaitConfigMap("web", "size", "large")
	runs(4)
	if n := o.count("the module runs again", "/done"); n != 1 {
		t.Errorf("what the hook takes away was brought back %d times, want once", n)
	}
}

// CRDs of a module are installed before any module runs, and its own objects with them. One
// that is deleted by hand comes back with its objects, also when it is another module's; so
// does an object alone. They stay when their module is disabled. M2, M5, M6, H13.
func TestCRDsOfModules(t *testing.T) {
	h := newFixture(t, "web")
	h.remove("modules/010-web/hooks") // what goes right after a run may be taken away by a hook; here are none
	group := h.namespace + ".example.com"
	h.write("modules/values.yaml", "webEnabled: true\nearlyEnabled: true\n")
	h.write("modules/030-early/crds/things.yaml", fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.%s}\nspec:\n  group: %s\n  scope: Namespaced\n  names: {plural: things, kind: Thing}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n", group, group))
	// A module that runs before the one that brings the definition.
	h.write("modules/010-web/templates/thing.yaml", fmt.Sprintf("apiVersion: %s/v1\nkind: Thing\nmetadata: {name: web}\n", group))
	t.Cleanup(func() { _ = h.tryIn(context.Background(), "delete", "crd", "things."+group, "--wait=false") })
	o := h.start().ready()
	h.awaitRevisions("web", "1:deployed")
	if n := o.count("task failed"); n > 0 {
		t.Errorf("%d tasks failed", n)
	}
	exists := func() error { return h.get("things."+group, "web") }
	if err := exists(); err != nil {
		t.Fatal(err)
	}
	back := func() error {
		if exists() != nil {
			return errors.New("it is absent")
		}
		return nil
	}
	h.kubectl("delete", "-n", h.namespace, "things."+group, "web")
	h.eventually("the thing is back", back)
	h.kubectl("delete", "crd", "things."+group)
	o.expect("CRDs are installed", "things."+group)
	h.eventually("the thing is back with its definition", back)
	o.expect("release is not as the module left it", "module=web", "Thing "+h.namespace+"/web")
	h.setConfig(map[string]string{"earlyEnabled": "false"})
	o.expect("module is deleted", "module=early")
	if err := exists(); err != nil {
		t.Errorf("the definition went with its module: %v", err)
	}
}

// CRDs of subcharts are installed with those of modules: when the subchart is enabled from the start, when a value
// enables it later, and again when somebody has deleted one. They stay when it is disabled. M1, M2, M5.
func TestCRDsOfSubcharts(t *testing.T) {
	h := newFixture(t, "web")
	h.remove("modules/010-web/hooks")
	group := h.namespace + ".example.com"
	define := func(kind string) string {
		plural := strings.ToLower(kind) + "s"
		t.Cleanup(func() { _ = h.tryIn(context.Background(), "delete", "crd", plural+"."+group, "--wait=false") })
		return fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.%s}\nspec:\n  group: %s\n  scope: Namespaced\n  names: {plural: %s, kind: %s}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n", plural, group, group, plural, kind)
	}
	early, late := devclustertest.Kind("Early"), devclustertest.Kind("Late")
	h.write("modules/010-web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\ndependencies:\n- {name: early, version: 0.1.0}\n- {name: late, version: 0.1.0, condition: web.late}\n")
	h.write("modules/010-web/charts/early/Chart.yaml", "{apiVersion: v2, name: early, version: 0.1.0}")
	h.write("modules/010-web/charts/early/charts/deep/Chart.yaml", "{apiVersion: v2, name: deep, version: 0.1.0}")
	h.write("modules/010-web/charts/early/charts/deep/crds/early.yaml", define(early))
	h.write("modules/010-web/charts/early/templates/early.yaml", fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: early}\n", group, early))
	h.write("modules/010-web/charts/late/Chart.yaml", "{apiVersion: v2, name: late, version: 0.1.0}")
	h.write("modules/010-web/charts/late/crds/late.yaml", define(late))
	h.write("modules/010-web/charts/late/templates/late.yaml", fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: late}\n", group, late))
	h.write("modules/values.yaml", "webEnabled: true\nweb: {late: false}\n")
	o := h.start().ready()
	h.awaitRevisions("web", "1:deployed")
	there := func(kind, name string) error {
		return h.get(strings.ToLower(kind)+"s."+group, name)
	}
	defined := func(kind string) error { return h.get("crd", strings.ToLower(kind)+"s."+group) }
	if err := there(early, "early"); err != nil {
		t.Error(err)
	}
	if defined(late) == nil {
		t.Error("the definition of a subchart that is off was installed")
	}
	h.setConfig(map[string]string{"web": "late: true"})
	h.eventually("the late object is there", func() error { return there(late, "late") })
	h.kubectl("delete", "crd", strings.ToLower(early)+"s."+group)
	h.eventually("the early object is back with its definition", func() error { return there(early, "early") })
	failed := o.count("task failed")
	h.setConfig(map[string]string{"web": "late: false"})
	h.eventually("the late object is gone", func() error {
		if there(late, "late") == nil {
			return errors.New("it is there")
		}
		return nil
	})
	if err := defined(late); err != nil {
		t.Errorf("the definition went with its subchart: %v", err)
	}
	if n := o.count("task failed"); n > failed {
		t.Errorf("%d tasks failed", n-failed)
	}
}

// The API server is lost while objects must be healed, and the operator survives it:
// what went meanwhile is back soon after the API server is. H13, H8.
func TestHealingOutlivesTheAPIServer(t *testing.T) {
	h, cluster := ownFixture(t, "web", devclustertest.Borrow)
	o := h.start().ready()
	h.awaitRevisions("web", "1:deployed")
	maps := h.client.CoreV1().ConfigMaps(h.namespace)
	for range 1 + *leaderKills/10 {
		if err := maps.Delete(h.ctx, "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		cluster.Restart(t)
		h.awaitConfigMap("web", "size", "small")
	}
	// It is counted at the end of the upgrade, when the ConfigMap has been back for a moment. Those above may not count:
	// an upgrade that the API server was lost in finds nothing absent when it is repeated.
	if err := maps.Delete(h.ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("a healed release in the metrics", func() error {
		if n := o.metric("addon_operator_modules_helm_release_redeployed_total", `module="web"`); n == "" || n == "0" {
			return fmt.Errorf("healed releases: %q", n)
		}
		return nil
	})
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// A Job with a time to live that Kubernetes has removed is not missing: its module does not run again for it, neither
// at once, nor when another object is healed, nor at a restart, and is ready without it. H13, H25.
func TestEndedJobIsNotMissing(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
jobEnabled: true
-- modules/010-job/templates/all.yaml --
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec:
  ttlSecondsAfterFinished: 3600
  suspend: true
  template: {spec: {restartPolicy: Never, containers: [{name: a, image: none}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: stays}, data: {a: b}}
`)
	o := h.start().ready()
	h.awaitRevisions("job", "1:deployed")
	h.kubectl("delete", "job", "-n", h.namespace, "migrate", "--cascade=background")
	h.deleteConfigMap("stays")
	o.expect("the module runs again", "ConfigMap "+h.namespace+"/stays")
	h.awaitRevisions("job", "1:superseded 2:deployed")
	h.awaitConfigMap("stays", "a", "b")
	o.awaitModule("job", "ready")
	o.terminate()
	o = h.start().ready()
	o.awaitModule("job", "ready")
	if got := h.revisions("job"); got != "1:superseded 2:deployed" {
		t.Errorf("after a restart the revisions are %s", got)
	}
	h.awaitObject(false, "jobs", "migrate")
}
