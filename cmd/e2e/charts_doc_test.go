package e2e

import (
	"os"
	"os/exec"
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
	const repository = "../../"
	text, err := os.ReadFile(repository + "docs/charts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Bring a chart\n")
	if section, _, _ = strings.Cut(section, "\n## "); !found {
		t.Fatal("the section is missing")
	}
	registry := fetchtest.Registry(t, false, podinfo(t, "6.9.0"), podinfo(t, "6.9.1"))
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?s)```bash\n(.*?)```").FindAllStringSubmatch(section, -1) {
		commands := strings.ReplaceAll(block[1], "oci://registry.example.com/charts", registry)
		script.WriteString(regexp.MustCompile(`(?m)^.* --version .*$`).ReplaceAllString(commands, "$0 --plain-http"))
	}
	bin, err := filepath.Abs(repository + "bin")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script.String())
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program())+":"+bin+":"+os.Getenv("PATH"),
		"HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home, "DOCKER_CONFIG="+home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := []string{"modules/010-podinfo/chart/", "The values are valid: global ones, and those of 1 module.", "replicas: 2", "ok    010-podinfo/objects", "Nothing is written."}
	for _, block := range regexp.MustCompile("(?s)```text\n(.*?)```").FindAllStringSubmatch(section, -1) {
		want = append(want, block[1])
	}
	for _, w := range want {
		if !strings.Contains(string(out), w) {
			t.Errorf("the output has no %q:\n%s", w, out)
		}
	}
	module, err := os.ReadFile(filepath.Join(cmd.Dir, "modules/010-podinfo/module.yaml"))
	if err != nil || !strings.Contains(string(module), "version: 6.9.1") {
		t.Errorf("%v\n%s", err, module)
	}
}

// podinfo is a small chart of this name.
func podinfo(t *testing.T, version string) []byte {
	return fetchtest.Chart(t, "podinfo", strings.ReplaceAll(`
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
