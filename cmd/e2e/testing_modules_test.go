package e2e

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The bash blocks of docs/testing-modules.md, word by word in an empty directory.
func TestTestingModulesIsTrue(t *testing.T) {
	t.Parallel()
	const repository = "../../"
	text, err := os.ReadFile(repository + "docs/testing-modules.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?s)```bash\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		script.WriteString(block[1])
	}
	bin, err := filepath.Abs(repository + "bin")
	if err != nil {
		t.Fatal(err)
	}
	tools := filepath.Dir(program())
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script.String())
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+tools+":"+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"ok    010-hello/count-nodes: The hook counts the nodes, and the chart shows their number",
		`steps[0].expect.values: hello.nodes must be 1, is 2`,
		`steps[0].expect.objects: ConfigMap hello.data.nodes must be "1", is "2"`,
		"exit code 1",
		`kubernetes "nodes": v1 Node, queue main`,
		`"path": "/hello/nodes"`,
		"ok    010-hello/refused",
		"ok    010-hello/greetings/default: The greeting says hello",
		"ok    010-hello/greetings/greeting/polite: The greeting good morning is accepted",
		"ok    010-hello/region: ",
		"coverage of 010-hello: 1 of 1 hooks, 1 of 1 bindings, 1 of 1 templates",
		"010-hello/greetings/greeting/short passed: true",
	} {
		if !strings.Contains(string(out), want) {
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
	data, err := os.ReadFile(filepath.Join(cmd.Dir, "results.xml"))
	if err == nil {
		err = xml.Unmarshal(data, &suite)
	}
	if err != nil || suite.Tests != 1 || suite.Failures != 0 || suite.Cases[0].Class != "010-hello" {
		t.Errorf("results.xml: %v %+v", err, suite)
	}
}
