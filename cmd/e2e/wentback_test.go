package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

const backModules = `
-- modules/010-web/hooks/late.sh --
#!/usr/bin/env bash
set -euo pipefail
if [[ ${1:-} == --config ]]; then
  cat <<END
configVersion: v1
kubernetes:
- name: late
  apiVersion: v1
  kind: ConfigMap
  labelSelector: {matchLabels: {late: "yes"}}
  executeHookOnSynchronization: false
END
  exit
fi
echo '[{"op": "add", "path": "/web/late", "value": true}]' > "$CONFIG_VALUES_JSON_PATCH_PATH"
-- modules/020-still/hooks/run.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "beforeHelm": 1}'; exit; fi
echo run >> "$OUT/still"
-- modules/values.yaml --
webEnabled: true
stillEnabled: true
-- modules/010-web/values.yaml --
web: {size: small}
-- modules/010-web/Chart.yaml --
name: web
version: 1.0.0
-- modules/010-web/templates/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {size: {{ .Values.web.size }}}
-- modules/010-web/hooks/watch.sh --
#!/usr/bin/env bash
set -euo pipefail
if [[ ${1:-} == --config ]]; then
  cat <<END
configVersion: v1
kubernetes:
- name: w
  apiVersion: v1
  kind: ConfigMap
  labelSelector: {matchLabels: {watched: "yes"}}
  jqFilter: .data.v
  includeSnapshotsFrom: [w]
END
  exit
fi
jq -r '.[] | .type + " " + ([.snapshots.w[].filterResult] | join(","))' "$BINDING_CONTEXT_PATH" >> "$OUT/journal"
`

// watched makes or changes an object that the hook watches.
func (h *fixture) watched(name, v string) {
	h.t.Helper()
	maps := h.client.CoreV1().ConfigMaps(h.namespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"watched": "yes"}}, Data: map[string]string{"v": v}}
	if _, err := maps.Update(h.ctx, object, metav1.UpdateOptions{}); err == nil {
		return
	}
	must(h.t, second(maps.Create(h.ctx, object, metav1.CreateOptions{})))
}

// After a restore of etcd under a running operator, everything is compared again: the values
// of the ConfigMap, the snapshots of hooks, which are shown all their objects, and the records
// of releases. What people do next is seen, though its resource versions are lower than those
// that are known. P14.
func TestClusterGoesBack(t *testing.T) {
	h, cluster := ownFixture(t, backModules, devclustertest.Borrow)
	o := h.start().ready()
	h.setConfig(map[string]string{"web": "size: early"})
	h.awaitConfigMap("web", "size", "early")
	h.watched("one", "a")
	h.awaitLine("out/journal", "Event a")
	restore := cluster.Backup(t)

	h.setConfig(map[string]string{"web": "size: late"})
	h.awaitConfigMap("web", "size", "late")
	h.awaitRevisions("web", "1:superseded 2:superseded 3:deployed")
	h.watched("one", "b")
	h.watched("two", "x")
	h.awaitLine("out/journal", "Event b,x")
	for i := range 100 { // so that it takes long until the versions are reached again
		h.watched("busy", fmt.Sprint(i))
	}
	h.awaitLine("out/journal", "Event 99,b,x")
	// What the operator writes itself makes it take older news of the ConfigMap for late.
	h.createConfigMap("late", "x", map[string]string{"late": "yes"})
	h.eventually("what the hook saves", func() error {
		if text := h.config()["web"]; !strings.Contains(text, "late: true") {
			return fmt.Errorf("the section is %q", text)
		}
		return nil
	})
	h.awaitLine("out/still", "run")
	runs := strings.Count(h.read("out/still"), "run")

	restore()
	o.expect("the cluster has gone back to an earlier state")
	h.until("all modules run again, also one that nothing has changed for", func() bool {
		return strings.Count(h.read("out/still"), "run") != runs
	})
	h.awaitLine("out/journal", "Synchronization a")
	h.awaitConfigMap("web", "size", "early")
	h.awaitRevisions("web", "1:superseded 2:deployed")
	h.setConfig(map[string]string{"web": "size: new"})
	h.awaitConfigMap("web", "size", "new")
	h.awaitRevisions("web", "1:superseded 2:superseded 3:deployed")
	h.watched("one", "c")
	h.awaitLine("out/journal", "Event c")
	if n := o.metric("addon_operator_kubernetes_client_watch_went_back_total", `gvr="v1/configmaps"`); n == "" || n == "0" {
		t.Errorf("watches that went back: %q", n)
	}
	h.awaitEvent(" ClusterWentBack: ")
}
