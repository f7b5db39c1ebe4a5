package e2e

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"addon-operator/helm/fetch/fetchtest"
)

// page is the text of a page of docs, or of its section with a title.
func page(t testing.TB, name, section string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + name)
	must(t, err)
	if section == "" {
		return string(data)
	}
	_, text, found := strings.Cut(string(data), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", name, section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// blocks are the fenced blocks of a language in a text.
func blocks(text, language string) (all []string) {
	for _, found := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	return all
}

// typed runs what a page says in a shell, as a person types it in an empty directory.
func typed(t testing.TB, script string, env ...string) (dir, out string) {
	t.Helper()
	bin, err := filepath.Abs("../../bin")
	must(t, err)
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(append(os.Environ(), "PATH="+filepath.Dir(program())+":"+bin+":"+os.Getenv("PATH")), env...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return cmd.Dir, string(output)
}

// The bash blocks of docs/modules.md, word by word in an empty directory: each recipe passes its tests, and lint.
func TestModulesPageIsTrue(t *testing.T) {
	t.Parallel()
	needs := map[string]string{"An API outside": "curl"}
	var script strings.Builder
	scenarios := 0
	for section := range strings.SplitSeq(page(t, "modules.md", ""), "\n### ") {
		title, _, _ := strings.Cut(section, "\n")
		if tool := needs[title]; tool != "" {
			if err := exec.Command(tool, "--version").Run(); err != nil {
				t.Logf("there is no %s: the recipe %q is not tried", tool, title)
				_, section, _ = strings.Cut(section, "\nAt last,")
			}
		}
		for _, block := range blocks(section, "bash") {
			script.WriteString(block)
			scenarios += strings.Count(block, "\ndescription: ")
		}
	}
	_, out := typed(t, script.String())
	if passed := strings.Count(out, "\nok ") + strings.Count(out[:3], "ok "); passed != scenarios || scenarios < 6 {
		t.Errorf("%d of %d scenarios passed:\n%s", passed, scenarios, out)
	}
	expectAll(t, out, "No findings in ")
}

// The bash blocks of docs/testing-modules.md, word by word in an empty directory.
func TestTestingModulesIsTrue(t *testing.T) {
	t.Parallel()
	dir, out := typed(t, strings.Join(blocks(page(t, "testing-modules.md", ""), "bash"), ""))
	for _, want := range []string{
		"ok    010-hello/count-nodes: The hook counts the nodes, and the chart shows their number",
		`steps[0].expect.values: hello.nodes must be 1, is 2`,
		`steps[0].expect.objects: ConfigMap hello.data.nodes must be "1", is "2"`,
		"exit code 1",
		`"path": "/hello/nodes"`,
		"ok    010-hello/refused",
		"ok    010-hello/greetings/default: The greeting says hello",
		"ok    010-hello/greetings/polite: Another greeting is accepted",
		"ok    010-hello/region: ",
		"010-hello/greetings/polite passed: true",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Class string `xml:"classname,attr"`
		} `xml:"testcase"`
	}
	data, err := os.ReadFile(filepath.Join(dir, "results.xml"))
	if err == nil {
		err = xml.Unmarshal(data, &suite)
	}
	if err != nil || suite.Tests != 1 || suite.Failures != 0 || suite.Cases[0].Class != "010-hello" {
		t.Errorf("results.xml: %v %+v", err, suite)
	}
}

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
