package e2e

import (
	"context"
	"strings"
	"testing"

	"addon-operator/testkit/devclustertest"
)

// A file in crds/ of one module, or of a subchart, that is wrong is a failure of this module: the others are installed and
// run, the error names the file, and the module runs when it is corrected. M2, M4, design 4.
func TestWrongCRDsOfOneModule(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ policy, file, text, says string }{
		"another kind": {
			"block", "modules/010-bad/crds/a.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: bad}}\n",
			"010-bad/crds/a.yaml: document 1: kind \"Namespace\" does not belong in crds/",
		},
		"an old version": {
			"isolate", "modules/010-bad/crds/a.yaml", "{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition, metadata: {name: bad.example.com}, spec: {}}\n",
			"write it as apiextensions.k8s.io/v1",
		},
		"refused, in a subchart": {"isolate", "modules/010-bad/charts/sub/crds/a.yaml", "", "metadata.name: Invalid value"},
	} {
		t.Run(what, func(t *testing.T) {
			h := newFixture(t, "-- modules/values.yaml --\nbadEnabled: true\ngoodEnabled: true\n")
			group := h.namespace + ".example.com"
			kind, late := devclustertest.Kind("Thing"), devclustertest.Kind("Late")
			for _, kind := range []string{kind, late} {
				t.Cleanup(func() { _ = h.tryIn(context.Background(), "delete", "crd", resource(kind, group), "--wait=false") })
			}
			h.write("modules/010-bad/Chart.yaml", "{apiVersion: v2, name: bad, version: 0.1.0}\n")
			h.write("modules/010-bad/templates/a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: bad}}\n")
			h.write("modules/010-bad/charts/sub/Chart.yaml", "{apiVersion: v2, name: sub, version: 0.1.0}\n")
			if c.text == "" {
				c.text = strings.Replace(definition(kind, group), "name: "+resource(kind, group), "name: bad."+group, 1)
			}
			h.write(c.file, c.text)
			h.write("modules/020-good/crds/late.yaml", definition(late, group))
			h.write("modules/020-good/templates/a.yaml", "apiVersion: "+group+"/v1\nkind: "+late+"\nmetadata: {name: good}\nsize: 1\n")
			o := h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY="+c.policy, "ADDON_OPERATOR_WATCH_MODULES=yes")
			expectAll(t, o.expect("task failed, will retry", "module=bad"), strings.TrimPrefix(c.file, "modules/"), c.says)
			h.awaitObject(true, "crd", resource(late, group)) // although good is behind bad
			if c.policy == "isolate" {
				h.awaitRevisions("good", "1:deployed")
				o.ready()
			}
			h.write(c.file, definition(kind, group))
			h.awaitRevisions("bad", "1:deployed")
			h.awaitRevisions("good", "1:deployed")
			h.awaitObject(true, "crd", resource(kind, group))
			// A definition that changes on disk comes with the run that this begins.
			h.write(c.file, strings.ReplaceAll(definition(kind, group), "size:", "width:"))
			h.eventually("the new definition", func() error { return h.try("explain", resource(kind, group)+".width") })
		})
	}
}
