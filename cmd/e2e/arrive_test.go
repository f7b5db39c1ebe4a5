package e2e

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the schema of a chart or of a subchart refuses fails the run of its module, with the words of Helm, and no
// other module. A check without a cluster finds it before. Events hold no value. H22.
func TestSchemaOfChartRefuses(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
dnsEnabled: true
podinfoEnabled: true
-- modules/010-dns/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: dns}, data: {zone: {{ .Values.dns.zone | quote }}}}
-- modules/010-dns/values.yaml --
dns: {zone: a}
-- modules/020-podinfo/Chart.yaml --
{apiVersion: v2, name: wrapper, version: 0.1.0}
-- modules/020-podinfo/charts/podinfo/Chart.yaml --
{apiVersion: v2, name: podinfo, version: 1.0.0}
-- modules/020-podinfo/charts/podinfo/values.yaml --
replicaCount: 1
-- modules/020-podinfo/charts/podinfo/values.schema.json --
{"properties": {"replicaCount": {"type": "integer"}, "token": {"pattern": "^t-"}}}
-- modules/020-podinfo/charts/podinfo/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: podinfo}, data: {replicas: {{ .Values.replicaCount | quote }}}}
`)
	o := h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate").ready()
	h.setConfig(map[string]string{"podinfo": "replicaCount: many\ntoken: hunter2\n", "dns": "zone: b\n"})
	refused := []string{"values don't meet the specifications of the schema", "podinfo", "/replicaCount"}
	o.expect(append(refused, "ERROR", "module=podinfo")...)
	h.awaitConfigMap("dns", "zone", "b")
	h.awaitConfigMap("podinfo", "replicas", "1")
	h.awaitEvent("Warning", "podinfo")
	if list, err := h.client.CoreV1().Events(h.namespace).List(h.ctx, metav1.ListOptions{}); err != nil || strings.Contains(strings.Join(eventTexts(list.Items), "\n"), "hunter2") {
		t.Errorf("the Events show a value, or %v", err)
	}
	h.write("cm.yaml", "podinfo: 'replicaCount: 1.5'\ndns: 'zone: b'\n")
	if out, _, code := h.plan(o.env, "-f", "cm.yaml"); !containsAll(out, refused) {
		t.Errorf("plan: exit code %d\n%s", code, out)
	}
	if out := o.command("values", "check", "--config-map", h.path("cm.yaml")); !containsAll(out, []string{"values of module podinfo", "/replicaCount"}) {
		t.Errorf("values check:\n%s", out)
	}
	h.setConfig(map[string]string{"podinfo": "replicaCount: 2\n"})
	h.awaitConfigMap("podinfo", "replicas", "2")
}

// A webhook that does not answer fails the objects of others, and to disable the module that brought it cures that.
func TestWebhookWithoutService(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
guardEnabled: true
webEnabled: true
patchesEnabled: true
-- modules/020-web/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: web, labels: {guarded: "yes"}}}
-- modules/030-patches/hooks/h.sh --
#!/bin/sh
[ "$1" = --config ] && { echo '{"configVersion": "v1", "onStartup": 1}'; exit; }
echo '{operation: CreateIfNotExists, object: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: '"$ADDON_OPERATOR_NAMESPACE"', name: patched, labels: {guarded: "yes"}}}}' > "$KUBERNETES_PATCH_PATH"
`)
	h.write("modules/010-guard/templates/hook.yaml", `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: `+h.namespace+`}
webhooks:
- name: guard.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 2
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+h.namespace+`}}
  objectSelector: {matchLabels: {guarded: "yes"}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  clientConfig: {service: {name: missing, namespace: `+h.namespace+`}}
`)
	t.Cleanup(func() {
		_ = h.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(context.Background(), h.namespace, metav1.DeleteOptions{})
	})
	o := h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate")
	says := "failed calling webhook"
	o.expect("ERROR", "module=web", says, "guard.example.com")
	o.expect("ERROR", "module=patches", "hook 030-patches/hooks/h.sh: object patches: CreateIfNotExists", says)
	h.setConfig(map[string]string{"guardEnabled": "false"})
	h.awaitRevisions("guard", "")
	h.awaitRevisions("web", "1:deployed")
	h.eventually("the object of the hook", func() error { return h.try("get", "-n", h.namespace, "configmap", "patched") })
}
