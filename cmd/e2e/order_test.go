package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"addon-operator/testkit/devclustertest"
)

// definition is a chart's template of a CRD, whose objects have the field size.
func definition(kind, group string) string {
	plural := strings.ToLower(kind) + "s"
	return fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.%s}\nspec:\n  group: %s\n  scope: Namespaced\n  names: {plural: %s, kind: %s}\n"+
		"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer}}}}}]\n", plural, group, group, plural, kind)
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
	h := newFixture(t, "-- modules/values.yaml --\nbaseEnabled: true\nrulesEnabled: true\nrules: {size: 1}\n")
	group := h.namespace + ".example.com"
	for _, kind := range kinds {
		h.write("modules/010-base/templates/"+kind+".yaml", definition(kind, group))
		h.write("modules/360-rules/templates/"+kind+".yaml", fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: rule}\nsize: {{ .Values.rules.size }}\n", group, kind))
		t.Cleanup(func() { _ = h.tryIn(context.Background(), "delete", "crd", resource(kind, group), "--wait=false") })
	}
	o := h.start().ready()
	h.awaitRevisions("rules", "1:deployed")
	for _, kind := range kinds {
		h.kubectl("delete", "crd", resource(kind, group))
		h.awaitObject(true, resource(kind, group), "rule")
	}
	o.expect("release is not as the module left it", "module=base")
}
