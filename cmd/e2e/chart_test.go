package e2e

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/helm"
	"addon-operator/testkit/devclustertest"
)

// asItIs is a module with a dash in its name whose chart lies in chart/ as its author has published it: a
// subchart, definitions, a schema, and tests that are no scenarios.
const asItIs = `
-- modules/010-web-app/values.yaml --
webApp: {image: {tag: b}}
webAppEnabled: true
global: {site: north}
-- modules/010-web-app/hooks/fact.sh --
#!/bin/bash
if [[ $1 == --config ]]; then echo '{configVersion: v1, beforeHelm: 1}'; exit; fi
echo '{"op": "add", "path": "/webApp/fact", "value": "found"}' >$VALUES_JSON_PATCH_PATH
-- modules/010-web-app/openapi/config-values.yaml --
type: object
properties: {replicas: {type: integer}, image: {type: object, additionalProperties: true}, cache: {type: object, additionalProperties: true}}
-- modules/010-web-app/openapi/values.yaml --
x-extend: {schema: config-values.yaml}
type: object
properties: {fact: {type: string}}
-- modules/010-web-app/tests/values.yaml --
description: The values of the section and of hooks reach the chart
given: {values: {webApp: {replicas: 4}}}
expect:
  objects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: web-app-web}, data: {replicas: "4", fact: found}}
-- modules/010-web-app/chart/tests/values.yaml --
not: a scenario
-- modules/010-web-app/chart/Chart.yaml --
{apiVersion: v2, name: web, version: 1.2.3, dependencies: [{name: cache, version: 1.x.x, condition: cache.enabled}]}
-- modules/010-web-app/chart/values.yaml --
replicas: 1
image: {name: web, tag: a}
cache: {enabled: false, size: 5}
-- modules/010-web-app/chart/crds/thing.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: KINDs.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {plural: KINDs, singular: KIND, kind: Kind}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
-- modules/010-web-app/chart/templates/web.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-{{ .Chart.Name }}"}
data:
  replicas: {{ .Values.replicas | quote }}
  image: {{ printf "%s:%s" .Values.image.name .Values.image.tag }}
  type: {{ kindOf .Values.replicas }}
  fact: {{ .Values.fact | quote }}
  site: {{ .Values.global.site | quote }}
---
{apiVersion: GROUP/v1, kind: Kind, metadata: {name: "{{ .Release.Name }}"}}
-- modules/010-web-app/chart/charts/cache/Chart.yaml --
{apiVersion: v2, name: cache, version: 1.0.0}
-- modules/010-web-app/chart/charts/cache/templates/cache.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-cache"}
data: {size: {{ .Values.size | quote }}, site: {{ .Values.global.site | quote }}}
`

// A20, D2: a chart in chart/ runs as it is. Its values are those of the section, from all layers; what knows
// where a chart lies finds it.
func TestChartAsItIs(t *testing.T) {
	kind := devclustertest.Kind("Leaf")
	h := newFixture(t, strings.NewReplacer("KIND", strings.ToLower(kind), "Kind", kind, "GROUP", "asitis.example.com").Replace(asItIs))
	h.setConfig(map[string]string{"webApp": "replicas: 2\ncache: {enabled: true}\n"})
	t.Cleanup(func() {
		_ = h.tryIn(context.Background(), "delete", "crd", strings.ToLower(kind)+"s.asitis.example.com")
	})
	o := h.start().ready()
	h.awaitRevisions("web-app", "1:deployed")
	h.awaitConfigMap("web-app-web", "replicas", "2")
	h.awaitConfigMap("web-app-web", "image", "web:b")
	h.awaitConfigMap("web-app-web", "type", "float64")
	h.awaitConfigMap("web-app-web", "fact", "found")
	h.awaitConfigMap("web-app-web", "site", "north")
	h.awaitConfigMap("web-app-cache", "size", "5")

	expectAll(t, h.command("values", "explain", "web-app", "image"),
		`webApp.image.name  "web"  chart`, "010-web-app/chart/values.yaml", `webApp.image.tag   "b"    file`, `  overrides        "a"    chart`)
	expectAll(t, h.command("module", "render", "web-app"), "name: web-app-cache", "# Source: web/templates/web.yaml")
	expectAll(t, h.command("test", "modules"), "ok    010-web-app/values", "1 scenario")
	expectAll(t, h.command("rbac", "generate"), "asitis.example.com", strings.ToLower(kind)+"s.asitis.example.com", "chart of module web-app")
	expectAll(t, h.command("plan"), "Nothing would be done. Modules: 1 unchanged")
	h.deleteConfigMap("web-app-cache")
	h.awaitConfigMap("web-app-cache", "size", "5")
	h.awaitRevisions("web-app", "1:superseded 2:deployed")
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	h.start().ready()
	h.awaitRevisions("web-app", "1:superseded 2:deployed")
}

// command runs the program next to the operator, and returns what it prints.
func (h *fixture) command(args ...string) string {
	h.t.Helper()
	cmd := exec.Command(program(), args...)
	cmd.Env, cmd.Dir = h.environment(), h.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

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
