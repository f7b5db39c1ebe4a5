package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/helm"
)

// A chart of another author is a subchart that has the name of the module: maps without a value are none, its
// labels stay as they are, numbers have the types that Helm gives them, a mistake of printf is shown, and tests with
// random names make no revision after a restart. H2, H6, H10, J12.
func TestForeignChart(t *testing.T) {
	h := newFixture(t, "web")
	for _, name := range []string{"hooks", "openapi", "templates", "values.yaml"} {
		h.remove("modules/010-web/" + name)
	}
	h.write("modules/values.yaml", "webEnabled: true\n")
	h.write("modules/010-web/Chart.yaml", "{apiVersion: v2, name: wrapper, version: 0.1.0}")
	h.write("modules/010-web/charts/web/Chart.yaml", "{apiVersion: v2, name: web, version: 1.0.0}")
	h.write("modules/010-web/charts/web/values.yaml", "annotations: {}\nseconds: null\n")
	h.write("modules/010-web/charts/web/templates/web.yaml", `apiVersion: v1
kind: ConfigMap
metadata:
  name: web
  annotations:
    {{- with .Values.annotations }}{{ toYaml . | nindent 4 }}{{ end }}
  labels: {heritage: {{ .Release.Service }}}
data:
  {{- if kindIs "float64" .Values.seconds }}
  seconds: {{ .Values.seconds | quote }}
  {{- end }}
  size: {{ printf "%.0f" .Values.size | quote }}
`)
	h.write("modules/010-web/templates/own.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: own}
data:
  size: {{ printf "%.0f" .Values.web.size | quote }}
  zone: {{ printf "%.0f" .Values.global.zone | quote }}
  mistake: {{ printf "%d" .Values.web.seconds | quote }}
`)
	h.write("modules/010-web/charts/web/templates/tests/test.yaml", `apiVersion: v1
kind: Pod
metadata: {name: "web-{{ randAlphaNum 5 | lower }}", annotations: {helm.sh/hook: test}}
spec: {containers: [{name: c, image: none}]}
`)
	h.setConfig(map[string]string{"web": "seconds: 30\nsize: 5000000\n", "global": "zone: 7\n"})
	o := h.start().ready()
	h.awaitRevisions("web", "1:deployed")
	h.awaitConfigMap("web", "seconds", "30")
	h.awaitConfigMap("web", "size", "5000000")
	h.awaitConfigMap("own", "size", "5000000")
	h.awaitConfigMap("own", "zone", "7")
	h.awaitConfigMap("own", "mistake", "%!d(float64=30)")
	live, err := h.client.CoreV1().ConfigMaps(h.namespace).Get(h.ctx, "web", metav1.GetOptions{})
	must(t, err)
	if live.Labels["heritage"] != "Helm" || live.Labels[helm.MarkLabel] != "web" {
		t.Errorf("labels: %v", live.Labels)
	}
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	h.start().ready()
	h.awaitRevisions("web", "1:deployed")
}
