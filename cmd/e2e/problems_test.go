package e2e

import (
	"strings"
	"testing"

	"addon-operator/testkit/devclustertest"
)

// A likely mistake with which an operator works all the same is a problem that people see: a second module of one
// name, files without their x bit, a kind that the cluster does not have; in the list
// of modules and hooks, by why, on the page, and as an Event. A rule that is not evaluated is named. A11, A15, A18,
// C16, D35, J12.
func TestProblemsAreShown(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
dnsEnabled: true
watchEnabled: true
-- modules/010-dns/openapi/config-values.yaml --
x-deckhouse-validations: [{expression: self.a > 1, message: no}]
properties: {a: {type: integer, default: 5}}
-- modules/020-dns/README.md --
-- modules/030-watch/enabled --
a script without its x bit
-- modules/030-watch/hooks/h.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "kubernetes": [{"name": "absent", "apiVersion": "absent.example.com/v1", "kind": "NeverThere"}]}'
fi
-- modules/030-watch/hooks/forgotten.sh --
a script without its x bit
`)
	o := h.start().ready()
	o.expect("WARN", "x-deckhouse-validations", "010-dns/openapi/config-values.yaml", "not evaluated")
	double := `module "dns" in 020-dns is ignored: 010-dns`
	o.ask("why dns", "problem: "+double)
	missing := "hook 030-watch/hooks/h.sh: binding absent: waiting for absent.example.com/v1/NeverThere"
	o.expect("WARN", "a file looks like a hook and is none", "030-watch/hooks/forgotten.sh is not executable")
	o.ask("why watch", "problem: "+missing, "problem: 030-watch/enabled is not executable")
	o.ask("module list", `module "dns" in `, "(and 1 more: addon-operator why watch)")
	_, page := get(o.public + "/")
	expectAll(t, page, missing, "its files have 1 problem")
	_, page = get("http://" + o.debug + "/")
	expectAll(t, page, missing, "is ignored")
	h.awaitEvent("Warning ModuleProblem: module dns: ")
	h.awaitEvent("Warning ModuleProblem: module watch: ")
}

// What the API server warns of, such as a misspelt field, names the release when Helm writes it, and the object when a
// hook does. J13.
func TestWarningsOfTheAPIServer(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
oddEnabled: true
-- modules/010-odd/templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: odd}, datta: {size: {{ .Values.odd.size | quote }}}}
-- modules/010-odd/hooks/h.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "onStartup": 1}'; exit; fi
echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "patched", "namespace": "'$NAMESPACE'"}, "dataa": {}}}' > "$KUBERNETES_PATCH_PATH"
`)
	o := h.start()
	o.expect("WARN warning of the API server", `unknown field "dataa"`, "patch=CreateOrUpdate v1/ConfigMap "+h.namespace+"/patched", "hook=010-odd/hooks/h.sh", "module=odd")
	o.expect("WARN the API server returned a warning", `unknown field "datta"`, "release=odd")
	o.ready()
	for _, field := range []string{"dataa", "datta"} {
		if n := o.count(`unknown field "` + field + `"`); n != 1 {
			t.Errorf("%s is logged %d times, want once", field, n)
		}
	}
}

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
{apiVersion: v1, kind: ConfigMap, metadata: {name: fast}, data: {size: {{ .Values.fast.size | quote }}}}
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
	const behind = "its run (OperatorStartup) waits in queue main behind RunModule of slow"
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
	const change = "its run (ConfigMap: fast.password, fast.size in ConfigMap) waits in queue main behind RunModule of slow"
	o.ask("why fast", "module fast: pending: "+change)
	o.ask("status", "1 pending, 1 in progress", change, "not all of them are ready")
	o.ask("module list", "fast", "pending", change)
	o.refuse("wait fast --timeout 1s", "fast is pending: "+change)
	h.awaitModule("fast", "pending", "Unknown")
	if message := h.printed("get", "module", "fast", "-n", h.namespace); !strings.Contains(message, change) || strings.Contains(message, "big") {
		t.Errorf("kubectl shows\n%s", message)
	}
	h.remove("out/busy")
	o.ask("wait --timeout 1m", "ready\n")
	h.awaitConfigMap("fast", "size", "big")
	if out := o.ask("why fast", "module fast: ready", "because of ConfigMap: fast.password, fast.size in ConfigMap"); strings.Contains(out, "other") {
		t.Errorf("a secret is shown:\n%s", out)
	}
	h.setConfig(map[string]string{"slow": "x: 1", "fast": "# the same\n{size: 'big', password: other}"})
	h.setConfig(map[string]string{"slow": "x: 2"})
	o.ask("wait --timeout 1m", "ready\n")
	if n := o.count("config values changed"); n != 3 {
		t.Errorf("the log has %d changes of values, want 3: a comment is none", n)
	}
}
