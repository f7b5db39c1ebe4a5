package e2e

import (
	"testing"
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
	enabled, unused := "030-watch/enabled is not executable", "030-watch/hooks/forgotten.sh is not executable"
	o.ask("why watch", "problem: "+missing, "problem: "+enabled, "problem: "+unused)
	o.ask("module list", `module "dns" in `, "(and 2 more: addon-operator why watch)")
	o.ask("hook list", "binding absent: waiting for absent.example.com")
	_, page := get(o.public + "/")
	expectAll(t, page, missing, "its files have 2 problems")
	_, page = get("http://" + o.debug + "/")
	expectAll(t, page, missing, "is ignored")
	h.awaitEvent("Warning ModuleProblem: module dns: ")
	h.awaitEvent("Warning ModuleProblem: module watch: ")
}
