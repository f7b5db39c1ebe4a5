package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

const backModules = `
-- modules/values.yaml --
webEnabled: true
-- modules/010-web/values.yaml --
web: {size: small}
-- modules/010-web/Chart.yaml --
name: web
version: 1.0.0
-- modules/010-web/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {size: {{ .Values.web.size }}}}
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

// After a restore of etcd under a running operator the process ends and says why; started again, it begins with what
// the cluster has. P14.
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
	for i := range 100 { // so that it takes long until the versions are reached again
		h.watched("busy", fmt.Sprint(i))
	}
	h.awaitLine("out/journal", "Event 99,b")

	restore()
	if code := o.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	o.expect("the API server has gone back to an earlier state, as after a restore of etcd")
	h.start().ready()
	h.awaitLine("out/journal", "Synchronization a")
	h.awaitConfigMap("web", "size", "early")
	h.awaitRevisions("web", "1:superseded 2:deployed")
	h.setConfig(map[string]string{"web": "size: new"})
	h.awaitConfigMap("web", "size", "new")
	h.awaitRevisions("web", "1:superseded 2:superseded 3:deployed")
	h.watched("one", "c")
	h.awaitLine("out/journal", "Event c")
}
