package e2e

import (
	"strings"
	"testing"

	"addon-operator/testkit/devclustertest"
)

const modulesOfVerdicts = `A module whose hook fails as long as a file exists, and waits while another one does, and a module behind it.

-- modules/values.yaml --
slowEnabled: true
fastEnabled: true
-- modules/010-slow/hooks/wait.sh --
#!/usr/bin/env bash
[[ ${1:-} == --config ]] && { echo '{"configVersion": "v1", "beforeHelm": 1}'; exit; }
if [[ -e $OUT/broken ]]; then echo "the load balancer is away" >&2; exit 1; fi
while [[ -e $OUT/busy ]]; do sleep 0.1; done
-- modules/020-fast/values.yaml --
fast: {size: small, password: s3cret}
-- modules/020-fast/templates/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: fast}
data: {size: {{ .Values.fast.size | quote }}}
-- out/broken --
`

// With the policy block: a module that waits behind one that fails says so, and a person's request is served in the
// first converge; a change that waits in a queue keeps its module from being ready, in all places and with the same
// words. J16, J18.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	h := fixtureOn(t, devclustertest.Borrow(t), modulesOfVerdicts)
	h.kubectl("apply", "-f", h.definition())
	o := h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=block")
	o.expect("task failed, will retry", "the load balancer is away")
	const behind = "its first run waits in queue main behind RunModule of slow, which has failed "
	o.ask("why fast", "module fast: pending: "+behind)
	o.ask("status", "1 failing, 1 pending", behind, "next: addon-operator logs slow")
	h.awaitModule("fast", "waiting", "Unknown")
	o.refuse("wait fast --timeout 1s", "fast is waiting: "+behind)
	if failed := o.count("task failed, will retry"); failed > 3 {
		t.Fatalf("%d attempts: the pause is over 20 s only for the next", failed)
	}
	h.remove("out/broken")
	o.ask("retry slow --timeout 30s", "module slow in namespace "+h.namespace+" is retried")
	o.ready()
	h.awaitModule("fast", "ready", "True")
	o.ask("status", "2 ready\nconverged")

	h.write("out/busy", "")
	h.setConfig(map[string]string{"slow": "x: 1"})
	o.awaitQueue("main", 1)
	h.setConfig(map[string]string{"slow": "x: 1", "fast": "{size: big, password: other}"})
	o.awaitQueue("main", 2)
	const change = "a change is not applied yet (ConfigMap: fast.password, fast.size in ConfigMap): its run waits in queue main behind RunModule of slow"
	o.ask("why fast", "module fast: pending: "+change)
	o.ask("status", "1 pending, 1 in progress", change, "not all of them are ready")
	o.ask("module list", "fast", "pending", "a change is not applied yet")
	o.refuse("wait fast --timeout 1s", "fast is pending: "+change)
	h.awaitModule("fast", "pending", "Unknown")
	if message := h.printed("get", "module", "fast", "-n", h.namespace); !strings.Contains(message, "a change is not applied yet") || strings.Contains(message, "big") {
		t.Errorf("kubectl shows\n%s", message)
	}
	h.remove("out/busy")
	o.ask("wait --timeout 1m", "ready\n")
	h.awaitConfigMap("fast", "size", "big")
	if out := o.ask("why fast", "module fast: ready", `because of ConfigMap: fast.password: "***" -> "***", fast.size: "small" -> "big" in ConfigMap`); strings.Contains(out, "other") {
		t.Errorf("a secret is shown:\n%s", out)
	}
	h.setConfig(map[string]string{"slow": "x: 1", "fast": "# the same\n{size: 'big', password: other}"})
	h.setConfig(map[string]string{"slow": "x: 2"})
	o.ask("wait --timeout 1m", "ready\n")
	if n := o.count("config values changed"); n != 3 {
		t.Errorf("the log has %d changes of values, want 3: a comment is none", n)
	}
}
