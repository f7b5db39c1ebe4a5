package bring

import (
	"bytes"
	"strings"
	"testing"

	"addon-operator/values"
)

// A new values.yaml has what was given, word by word, and proposes what people change first.
func TestValuesFile(t *testing.T) {
	defaults := parsed(t, `
replicaCount: 1
image: {repository: web, tag: ""}
resources: {}
ingress: {enabled: false, annotations: {}, hosts: [a.example.com]}
controller: {service: {type: LoadBalancer}, verbosity: 2}
sub: {enabled: true, deep: {deeper: {deepest: {replicas: 1}}}}
`)
	given := "---\n# two of them\nreplicaCount: 2\nscript: |\n  a\n\n    b\nlist:\n- 1\n"
	text, err := valuesFile("web", "web", defaults, given)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"web:\n  # two of them\n  replicaCount: 2\n  script: |\n    a\n\n      b\n", "# webEnabled: true", "  # image:\n  #   repository: web\n", "  # ingress:\n", "  #   enabled: false\n", "  # controller:\n  #   service:\n  #     type: LoadBalancer\n", "  # resources: {}\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, no := range []string{"# replicaCount", "verbosity", "annotations", "deepest"} {
		if strings.Contains(text, no) {
			t.Errorf("%q in\n%s", no, text)
		}
	}
	tree := parsed(t, text)
	got, _ := values.YAML(tree["web"])
	if want, _ := values.YAML(parsed(t, given)); !bytes.Equal(got, want) {
		t.Errorf("the values became\n%s", got)
	}
	if _, err := valuesFile("web", "web", defaults, "[1]"); err == nil {
		t.Error("a list is taken")
	}
	if text, err := valuesFile("web", "web", nil, ""); err != nil || !strings.HasSuffix(text, "\nweb:\n") {
		t.Errorf("%v\n%s", err, text)
	}
}
