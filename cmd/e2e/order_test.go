package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// definition is a chart's template of a CRD, whose objects have the field size.
func definition(kind, group string) string {
	plural := strings.ToLower(kind) + "s"
	return fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.%s}\nspec:\n  group: %s\n  scope: Namespaced\n  names: {plural: %s, kind: %s}\n"+
		"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer}}}}}]\n", plural, group, group, plural, kind)
}

// orderFixture has module 010-base with CRDs among its templates, and module 360-rules with an object of each.
func orderFixture(t *testing.T, kinds ...string) (h *fixture, group string) {
	h = newFixture(t, "-- modules/values.yaml --\nbaseEnabled: true\nrulesEnabled: true\nrules: {size: 1}\n")
	group = h.namespace + ".example.com"
	for _, kind := range kinds {
		h.write("modules/010-base/templates/"+kind+".yaml", definition(kind, group))
		h.write("modules/360-rules/templates/"+kind+".yaml", fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: rule}\nsize: {{ .Values.rules.size }}\n", group, kind))
		t.Cleanup(func() { _ = h.tryIn(context.Background(), "delete", "crd", resource(kind, group), "--wait=false") })
	}
	return h, group
}

func resource(kind, group string) string { return strings.ToLower(kind) + "s." + group }

// awaitObject waits until there is, or is not, an object with this name.
func (h *fixture) awaitObject(there bool, resource, name string) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("%s %s exists: %v", resource, name, there), func() error {
		switch err := h.get(resource, name); {
		case there:
			return err
		case err == nil:
			return errors.New("it is there")
		}
		return nil
	})
}

// Somebody deletes CRDs that stand among the templates of one module, and objects of them in the release of a later
// one go with them. Both modules are healed without anybody's help, also when their order is the other one.
// F6, H13.
func TestDeletedCRDOfTemplates(t *testing.T) {
	kinds := []string{devclustertest.Kind("Rule"), devclustertest.Kind("Probe")}
	h, group := orderFixture(t, kinds...)
	o := h.start().ready()
	h.awaitRevisions("rules", "1:deployed")
	for _, kind := range kinds {
		h.kubectl("delete", "crd", resource(kind, group))
		h.awaitObject(true, resource(kind, group), "rule")
	}
	if line := o.expect("release is not as the module left it", "module=base"); line == "" {
		t.Error("base is not healed")
	}
}

// The module at the head fails for a reason that nothing cures. Switched off, it goes at once, and what has waited
// behind it runs. F6, E11, design 4.
func TestHeadIsSwitchedOff(t *testing.T) {
	kind := devclustertest.Kind("Rule")
	h, group := orderFixture(t, kind)
	h.write("modules/values.yaml", "baseEnabled: true\nrulesEnabled: true\nlaterEnabled: true\nrules: {size: 1}\nlater: {}\n")
	h.write("modules/370-later/templates/later.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: later}\n")
	o := h.start().ready()
	h.awaitRevisions("rules", "1:deployed")
	h.setConfig(map[string]string{"rules": "size: many"})
	o.expect("task failed, will retry", "module=rules")
	h.kubectl("delete", "crd", resource(kind, group))
	if err := h.client.CoreV1().ConfigMaps(h.namespace).Delete(h.ctx, "later", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Heals of other modules go past it.
	h.eventually("the definition is back", func() error { return h.get("crd", resource(kind, group)) })
	h.eventually("later is back", func() error { return h.get("configmap", "later") })
	h.setConfig(map[string]string{"rulesEnabled": "false"})
	o.expect("module is deleted", "module=rules")
	o.expect("converged")
	h.awaitRevisions("rules", "")
}

// A module lacks a kind that a later one brings, among its templates or in crds/: the error and the Event name that module,
// and give no advice to install what is on its way. F6, M4.
func TestMissingKindNamesItsModule(t *testing.T) {
	rule, probe := devclustertest.Kind("Rule"), devclustertest.Kind("Probe")
	h := newFixture(t, "-- modules/values.yaml --\nbaseEnabled: true\nrulesEnabled: true\n")
	group := h.namespace + ".example.com"
	h.write("modules/360-base/templates/rule.yaml", definition(rule, group))
	h.write("modules/360-base/crds/probe.yaml", definition(probe, group))
	for _, kind := range []string{rule, probe} {
		h.write("modules/010-rules/templates/"+kind+".yaml", fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: rule}\nsize: {{ .Values.rules.size | default 1 }}\n", group, kind))
		t.Cleanup(func() { _ = h.tryIn(context.Background(), "delete", "crd", resource(kind, group), "--wait=false") })
	}
	o := h.start()
	line := o.expect("task failed, will retry", "module=rules")
	if !strings.Contains(line, "provided by: base (runs first)") || strings.Contains(line, "install the CRD") {
		t.Errorf("the module is not named, or the advice is wrong: %s", line)
	}
	h.awaitRevisions("base", "1:deployed")
	h.setConfig(map[string]string{"rules": "size: 2"}) // an edit ends the pause
	o.ready()
	h.kubectl("delete", "crd", resource(probe, group))
	h.setConfig(map[string]string{"rules": "size: 3"})
	line = o.expect("task failed, will retry", "module=rules")
	if !strings.Contains(line, "applied again from") || !strings.Contains(line, "360-base/crds/probe.yaml") || strings.Contains(line, "install the CRD") {
		t.Errorf("the file is not named, or the advice is wrong: %s", line)
	}
	h.setConfig(map[string]string{"rules": "size: 4"})
	h.awaitObject(true, resource(probe, group), "rule")
	list, err := h.client.CoreV1().Events(h.namespace).List(h.ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if texts := strings.Join(eventTexts(list.Items), "\n"); strings.Contains(texts, "install the CRD") {
		t.Errorf("wrong advice in an Event: %s", texts)
	}
}
