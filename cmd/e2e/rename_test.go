package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claimUID is that of a claim that is not being deleted.
func (h *fixture) claimUID(name string) string {
	h.t.Helper()
	claim, err := h.client.CoreV1().PersistentVolumeClaims(h.namespace).Get(h.ctx, name, metav1.GetOptions{})
	must(h.t, err)
	if claim.DeletionTimestamp != nil {
		h.t.Fatalf("claim %s is being deleted", name)
	}
	return string(claim.UID)
}

// A module that is renamed keeps its objects, and with them its data: the module of the new name takes them over. While
// that one fails, the release of the old name is not purged. H7, P1.
func TestModuleIsRenamed(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
aaEnabled: true
abEnabled: true
acEnabled: true
-- modules/010-aa/templates/all.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`)
	isolate := "ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate"
	h.start(isolate).ready().terminate()
	shared, data := h.configMapUID("shared"), h.claimUID("data")
	same := func(when string) {
		t.Helper()
		if h.configMapUID("shared") != shared || h.claimUID("data") != data {
			t.Errorf("%s objects are others", when)
		}
	}

	h.rename("modules/010-aa", "modules/010-ab")
	o := h.start(isolate).ready()
	h.awaitRevisions("aa", "")
	h.awaitRevisions("ab", "1:deployed")
	same("after a rename")
	o.expect("objects are taken over from a release that has no module directory any more", "from=aa")
	o.terminate()

	h.rename("modules/010-ab", "modules/010-ac")
	template := h.read("modules/010-ac/templates/all.yaml")
	h.write("modules/010-ac/templates/all.yaml", template+"---\n{{ fail \"not yet\" }}\n")
	out, _, _ := h.plan(o.env, ".")
	expectAll(t, out, "ac", "not yet")
	o = h.start(isolate)
	o.expect("task failed; the next reload of all modules tries it again", "PurgeRelease", "it is held back: it is unknown whether module ac has objects of this release", "not yet")
	h.awaitRevisions("ab", "1:deployed")
	same("while the new module fails,")
	h.write("modules/010-ac/templates/all.yaml", template)
	out, _, _ = h.plan(o.env)
	if strings.Contains(out, "delete PersistentVolumeClaim") || strings.Contains(out, "belongs to release") {
		t.Errorf("the plan is\n%s", out)
	}
	o.command("retry", "ac")
	h.awaitRevisions("ac", "1:deployed")
	h.setConfig(map[string]string{"global": "reload: 1"}) // until then the new files are not in force, and the purge waits
	h.awaitRevisions("ab", "")
	same("after another rename")
	if n := o.count("ERROR", "belongs to release"); n != 0 {
		t.Errorf("the log has %d such errors", n)
	}
}
