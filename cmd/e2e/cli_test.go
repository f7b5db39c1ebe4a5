package e2e

import (
	"slices"
	"strings"
	"testing"
)

// ask runs a command as a person would in the Pod, over the unix socket; want are parts of
// what it prints.
func (o *operator) ask(command string, want ...string) string {
	o.fixture.t.Helper()
	out, err := o.bySocket(command)
	if err != nil || !containsAll(out, want) {
		o.fixture.t.Errorf("%s: %v, want %q in\n%s", command, err, want, out)
	}
	return out
}

// refuse runs a command that must fail, with these parts in what it prints.
func (o *operator) refuse(command string, want ...string) {
	o.fixture.t.Helper()
	if out, err := o.bySocket(command); err == nil || !containsAll(out, want) {
		o.fixture.t.Errorf("%s: %v, want %q in\n%s", command, err, want, out)
	}
}

func (o *operator) bySocket(command string) (output string, err error) {
	in := *o
	in.env = append(slices.Clone(o.env), "DEBUG_HTTP_SERVER_ADDR=unix:"+o.fixture.socket())
	return in.run("", strings.Fields(command)...)
}

// Issue 8, point 4: a person looks into a running operator, from modules to manifests, and
// changes how much it logs. J4, J6.
func TestLookIntoARunningOperator(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
wellEnabled: true
-- modules/010-well/values.yaml --
well: {size: 1, password: s3cret}
-- modules/010-well/templates/all.yaml --
apiVersion: v1
kind: Secret
metadata: {name: well}
stringData: {password: {{ .Values.well.password }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: well}
data: {size: {{ .Values.well.size | quote }}}
-- modules/010-well/hooks/watch.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "kubernetes": [{"name": "secrets", "kind": "Secret", "nameSelector": {"matchNames": ["well"]}, "namespace": {"nameSelector": {"matchNames": ["'"$NAMESPACE"'"]}}}]}'
fi
-- modules/020-off/README.md --
`)
	o := h.start("LOG_LEVEL=warn").ready()
	o.ask("module list", "well  10     ready", "off   20     disabled")
	o.ask("hook list", "010-well/hooks/watch.sh", "kubernetes", "secrets")
	o.ask("module values well", "size: 1", "password: '***'")
	o.ask("module values well --show-secrets", "s3cret")
	o.ask("module resource-monitor", h.namespace+"/ConfigMap/well", h.namespace+"/Secret/well", "No monitor")
	o.ask("queue list", `Queue "main" is empty.`)
	o.ask("raw /discovery", "/module/list")
	h.shows("the snapshot has the Secret", func() string { return o.ask("module snapshots well", "complete") }, "1\n")
	if out := o.ask("hook snapshots 010-well/hooks/watch.sh -o yaml", "kind: Secret"); strings.Contains(out, "czNjcmV0") {
		t.Errorf("the snapshot shows a secret:\n%s", out)
	}
	o.ask("module render well", "kind: ConfigMap", `size: "1"`, "password: '***'")
	o.ask("module render well --diff", "No differences from the deployed release, revision 1.")

	o.ask("config set log.level debug 10m", "log.level  debug  warn")
	o.ask("config list", "log.level  debug  warn")
	h.setConfig(map[string]string{"well": "password: other"})
	o.expect("release step") // at debug level
	h.awaitRevisions("well", "1:superseded 2:deployed")
	o.ask("why well", "module well: ", "because of ConfigMap")
	o.ask("status", "1 ready, 1 off\n", "converged")
	o.ask("status -o jsonpath={.namespace}", h.namespace+"\n")
	o.ask("wait well", "ready\n")
	o.refuse("wait off --timeout 1s", "off is disabled: no flag anywhere")
	o.refuse("history well", "the command history was removed; use: helm history MODULE")
	h.setConfig(map[string]string{"well": "size: many\nsizee: 1\n: ["})
	h.awaitEvent("Warning Refused: ", onConfigMap)
	h.setConfig(map[string]string{"well": "size: 2"})
	h.awaitEvent("Normal Accepted: ", onConfigMap)
}
