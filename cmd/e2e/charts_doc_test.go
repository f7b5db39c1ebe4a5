package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"addon-operator/helm/fetch/fetchtest"
)

// The bash blocks of 'Bring a chart' in docs/charts.md, word by word in an empty directory; a registry on
// loopback stands for the one of the page.
func TestBringAChartIsTrue(t *testing.T) {
	t.Parallel()
	section := page(t, "charts.md", "Bring a chart")
	registry := fetchtest.Registry(t, false, podinfo(t, "6.9.0"), podinfo(t, "6.9.1"))
	script := strings.ReplaceAll(strings.Join(blocks(section, "bash"), ""), "oci://registry.example.com/charts", registry)
	script = regexp.MustCompile(`(?m)^.* --version .*$`).ReplaceAllString(script, "$0 --plain-http")
	home := t.TempDir()
	dir, out := typed(t, script, "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home, "DOCKER_CONFIG="+home)
	want := []string{"modules/010-podinfo\n", "The global values and the values of 1 module are valid.", "replicas: 2", "ok    010-podinfo/objects", "Nothing is written."}
	expectAll(t, out, append(want, blocks(section, "text")...)...)
	module, err := os.ReadFile(filepath.Join(dir, "modules/010-podinfo/module.yaml"))
	if err != nil || !strings.Contains(string(module), "version: 6.9.1") {
		t.Errorf("%v\n%s", err, module)
	}
}

// podinfo is a small chart of this name.
func podinfo(t *testing.T, version string) []byte {
	return fetchtest.Chart(t, strings.ReplaceAll(`
-- Chart.yaml --
{apiVersion: v2, name: podinfo, version: VERSION}
-- values.yaml --
replicaCount: 1
image: {repository: podinfo, tag: "VERSION"}
-- templates/deployment.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicaCount }}
  selector: {matchLabels: {app: podinfo}}
  template:
    metadata: {labels: {app: podinfo}}
    spec: {containers: [{name: podinfo, image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"}]}
`, "VERSION", version))
}
