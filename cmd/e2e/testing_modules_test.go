package e2e

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
