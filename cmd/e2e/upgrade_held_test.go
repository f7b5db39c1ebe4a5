package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A value that guards a claim is renamed in the template, and not in values.yaml: the claim stays, and a person sees
// everywhere why, and how to allow it. Other modules go on. P1, P1.2, J15.
func TestUpgradeThatDropsAClaimIsHeld(t *testing.T) {
	const template = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: db}, data: {size: {{ .Values.db.size | quote }}}}
---
{{ if .Values.db.GUARD }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
{{ end }}
`
	h := newFixture(t, "web")
	h.write("modules/values.yaml", "webEnabled: true\ndbEnabled: true\ndb: {persistence: true, size: small}\n")
	h.write("modules/005-db/templates/all.yaml", strings.ReplaceAll(template, "GUARD", "persistence"))
	o := h.start().ready()
	h.awaitRevisions("db", "1:deployed")

	h.write("modules/005-db/templates/all.yaml", strings.ReplaceAll(template, "GUARD", "storage"))
	claim := "PersistentVolumeClaim " + h.namespace + "/data"
	held := "the upgrade is held back, because their data would be deleted with them: they are not in the chart any more: " + claim + "; to allow it: kubectl annotate"
	expectAll(t, o.command("plan"), "the upgrade is held back, because their data", claim, "- PersistentVolumeClaim")
	h.setConfig(map[string]string{"global": "any: change", "web": "size: big"})
	o.expect("WARN an upgrade is held back until a person allows it", "module=db", "objects=["+claim+"]")
	o.expect("converged", "modules=2")
	h.awaitConfigMap("web", "size", "big")
	h.awaitRevisions("db", "1:deployed")
	expectAll(t, o.command("module", "list"), "  held  ", held)
	expectAll(t, o.command("status"), held)
	expectAll(t, o.command("why", "db"), "module db: held: "+held)
	_, page := get(o.public + "/")
	if strings.Contains(page, "to allow it") {
		t.Error("the public page has the command")
	}
	exists := func() bool {
		live, err := h.client.CoreV1().PersistentVolumeClaims(h.namespace).Get(h.ctx, "data", metav1.GetOptions{})
		return err == nil && live.DeletionTimestamp == nil
	}
	if !exists() {
		t.Fatal("the claim is deleted")
	}

	// The edit is taken back.
	h.write("modules/005-db/templates/all.yaml", strings.ReplaceAll(template, "GUARD", "persistence"))
	h.setConfig(map[string]string{"global": "any: other change"})
	o.expect("no upgrade is held back any longer", "module=db")
	if list := o.command("module", "list"); strings.Contains(list, "  held  ") {
		t.Errorf("it is still shown:\n%s", list)
	}

	h.write("modules/005-db/templates/all.yaml", strings.ReplaceAll(template, "GUARD", "storage"))
	h.setConfig(map[string]string{"global": "any: third change"})
	o.expect("WARN an upgrade is held back until a person allows it", "module=db")
	h.kubectl(strings.Fields(h.confirmation("UpgradeHeld"))...)
	o.expect("INFO objects that have left the chart are deleted", claim)
	o.expect("INFO release", "module=db", "action=upgraded", "revision=2")
	h.awaitNoConfirmation()
	if exists() {
		t.Error("the claim stays, though a person has allowed to delete it")
	}
}

// An object that a record has in a version that is no longer served is deleted with its module, and one whose kind has no
// version is named in an Event. H12.
func TestDeletedInAnotherVersion(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
scalerEnabled: true
-- modules/010-scaler/templates/all.yaml --
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: scaler}
spec: {maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}}
`)
	h.start().ready().terminate()
	h.rewriteRecord("scaler", 1, func(text string) string { // as an older Kubernetes had it
		return strings.ReplaceAll(text, "autoscaling/v2", "autoscaling/v2beta2") + "---\napiVersion: gone.example.com/v1\nkind: Gone\nmetadata: {name: lost}\n"
	})
	h.setConfig(map[string]string{"scalerEnabled": "false"})
	o := h.start().ready()
	o.expect("WARN objects cannot be deleted", "Gone lost")
	h.awaitRevisions("scaler", "")
	h.awaitEvent("Warning ObjectsStay", "release scaler: objects cannot be deleted", "Gone lost")
	list, err := h.client.AutoscalingV2().HorizontalPodAutoscalers(h.namespace).List(h.ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("what the module had: %v, %v", list, err)
	}
}
