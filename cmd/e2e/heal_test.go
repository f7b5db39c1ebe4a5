package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A deleted object of a release is back a moment later; metrics and the dump tell of it.
// Event 15, H13, I2.
func TestDeletedObjectIsBack(t *testing.T) {
	h := newHouse(t, "web")
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
	if dump := o.dump(); !strings.Contains(dump, "1 watches, 1 objects") {
		t.Errorf("the dump does not show the healer:\n%s", dump)
	}
}

// CRDs of a module are installed before any module runs, and its own objects with them. One
// that is deleted by hand comes back with its objects, also when it is another module's; so
// does an object alone. They stay when their module is disabled. M2, M5, M6, H13.
func TestCRDsOfModules(t *testing.T) {
	h := newHouse(t, "web")
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
	exists := func() error { return h.try("get", "-n", h.namespace, "things."+group, "web") }
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

// The API server is lost while objects must be healed, and the operator survives it:
// what went meanwhile is back soon after the API server is. H13, T20.
func TestHealingOutlivesTheAPIServer(t *testing.T) {
	h, cluster := ownHouse(t, "web")
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
	if n := o.metric("addon_operator_modules_helm_release_redeployed_total", `module="web"`); n == "" || n == "0" {
		t.Errorf("healed releases: %q", n)
	}
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
