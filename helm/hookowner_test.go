package helm

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// H7, H14: a Helm hook of a chart replaces what hooks of its release have left, and nothing else that has its name.
func TestHooksReplaceNothingOfOthers(t *testing.T) {
	f := start(t)
	chart := func(name string) Module {
		return moduleOf(t, name, `
-- templates/all.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: `+name+`}
data: {word: {{ .Values.`+name+`.word | default "one" | quote }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, annotations: {helm.sh/hook: "pre-install,pre-upgrade,pre-delete", helm.sh/hook-delete-policy: {{ .Values.`+name+`.policy | default "before-hook-creation" | quote }}}}
data: {from: `+name+`}
`)
	}
	uid := func() string {
		t.Helper()
		live, err := f.kube.CoreV1().ConfigMaps(f.namespace).Get(t.Context(), "settings", metav1.GetOptions{})
		must(t, err)
		return string(live.UID)
	}
	m := chart("hooked")
	refused := func(what, want string) {
		t.Helper()
		before := uid()
		if err := f.refuse(m, Foreign); !strings.Contains(err.Error(), "ConfigMap "+f.namespace+"/settings") || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "rename the hook") {
			t.Errorf("%s: %v", what, err)
		}
		if uid() != before {
			t.Errorf("%s: it was replaced", what)
		}
	}
	f.create("settings", nil, nil)
	refused("an object of a person", "no Helm hook has made it")
	f.deleteConfigMap("settings")
	f.create("settings", nil, map[string]string{ownerName: "other", ownerNamespace: f.namespace, "helm.sh/hook": "pre-install"})
	refused("one of another release", "it belongs to release other in namespace "+f.namespace)
	f.deleteConfigMap("settings")

	// What it made itself, or its Helm before, is replaced; so is an object of the release that became a hook.
	f.apply(m, Installed, 0)
	for _, annotations := range []map[string]string{
		nil, {"helm.sh/hook": "pre-install"}, {ownerName: "hooked", ownerNamespace: f.namespace},
	} {
		if annotations != nil {
			f.deleteConfigMap("settings")
			f.create("settings", nil, annotations)
		}
		before := uid()
		m = m.with("word", jsonOf(annotations))
		f.apply(m, Upgraded, 0)
		if uid() == before || f.configMap("settings")["from"] != "hooked" {
			t.Errorf("what has %v was not replaced", annotations)
		}
	}

	other := chart("neighbour")
	m, other = other, m
	refused("what a hook of another release has left", "it is of a Helm hook of release hooked")
	before := uid()
	if _, err := f.client.Uninstall(t.Context(), m); err == nil || !strings.Contains(err.Error(), "it is of a Helm hook of release hooked") || uid() != before {
		t.Errorf("an uninstall: %v", err)
	}
	must(t, second(f.client.Uninstall(t.Context(), other)))
	if f.configMap("settings") != nil {
		f.deleteConfigMap("settings")
	}
	f.apply(m, Installed, 0)
}
