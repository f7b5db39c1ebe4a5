package helm

import "testing"

// helm.sh/resource-policy: keep. What a chart wants to keep stays when it leaves the chart,
// when a failed revision is repaired and when the release goes; a later install takes it
// over with its content.
func TestApplyKeeps(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "keeper", `
-- templates/all.yaml --
{{ range .Values.keeper.kept }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ . }}, annotations: {helm.sh/resource-policy: keep}}
data: {text: chart}
{{ end }}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: {{ .Values.keeper.port }}}]}
`)
	broken, fixed := m.with("port", int64(-1)), m.with("port", int64(80))
	there := func(when string, names ...string) {
		t.Helper()
		for _, name := range names {
			if f.configMap(name) == nil {
				t.Errorf("%s: %s is gone", when, name)
			}
		}
	}
	f.refuse(broken.with("kept", []any{"one", "two"}), Invalid)
	f.apply(fixed.with("kept", []any{"one"}), Installed, 1)
	there("after a failed first install", "one", "two")
	f.refuse(broken.with("kept", []any{"one", "three"}), Invalid)
	f.apply(fixed.with("kept", []any{"one"}), Upgraded, 3)
	there("after a failed upgrade", "one", "three")
	f.apply(fixed.with("kept", []any{}), Upgraded, 4)
	there("after it left the chart", "one")
	f.deleteConfigMap("one")
	f.apply(fixed.with("kept", []any{}), Skipped, 4) // it is not missed
	f.apply(fixed.with("kept", []any{"one"}), Upgraded, 5)
	f.uninstall("keeper", true)
	there("after the uninstall", "one", "two", "three")
	f.patch("configmaps", "one", `{"data":{"own":"kept"}}`)
	f.apply(fixed.with("kept", []any{"one", "two"}), Installed, 1)
	if data := f.configMap("one"); data["text"] != "chart" || data["own"] != "kept" {
		t.Errorf("what was kept is not taken over as it is: %v", data)
	}
}
