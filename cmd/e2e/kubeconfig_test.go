package e2e

import (
	"os"
	"strings"
	"testing"
)

// kubectl in hooks uses the cluster of the operator: a kubeconfig and a context that only an option names, by a path
// that is relative to the directory of the operator, also when the kubeconfig has another current context.
func TestHooksUseTheClusterOfTheOperator(t *testing.T) {
	h := newFixture(t, `
-- global-hooks/look --
#!/bin/bash
[[ $1 == --config ]] && { echo '{"configVersion": "v1", "onStartup": 1}'; exit; }
kubectl get namespace "$NAMESPACE" -o name >>"$OUT/journal"
`)
	text, err := os.ReadFile(h.kubeconfig)
	must(t, err)
	var current string
	for line := range strings.Lines(string(text)) {
		if name, is := strings.CutPrefix(line, "current-context: "); is {
			current = strings.TrimSpace(name)
		}
	}
	h.write("plain.yaml", string(text))
	h.write("cluster.yaml", strings.Replace(string(text), "current-context: "+current, "current-context: nothing", 1))
	options := []string{"KUBECONFIG=", "KUBE_CONFIG=cluster.yaml", "KUBE_CONTEXT=" + current}
	for _, environment := range [][]string{{"KUBECONFIG=plain.yaml"}, options, options} {
		o := h.start(environment...)
		h.awaitJournal("namespace/" + h.namespace)
		o.kill()
		h.remove("out/journal")
	}
	o := h.start(options...)
	h.awaitJournal("namespace/" + h.namespace)
	o.terminate() // removes what those have left that were killed, too
	if left, err := os.ReadDir(h.path("tmp")); err != nil || len(left) > 0 {
		t.Errorf("left in the directory for temporary files: %v, %v", left, err)
	}
}
