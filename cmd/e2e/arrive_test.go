package e2e

import (
	"strings"
	"testing"
)

// A chart of which a part is not there fails alone, before anything is written, and says what to do: in the log, the list of
// modules, the plan and the check. One that nothing installs is a problem that people see. H21, A17.
func TestChartIsIncomplete(t *testing.T) {
	h := newHouse(t, `
-- modules/values.yaml --
dnsEnabled: true
forgottenEnabled: true
webEnabled: true
-- modules/010-forgotten/Chart.yaml --
{apiVersion: v2, name: forgotten, version: 0.1.0, dependencies: [{name: redis, version: 1.x.x, repository: "https://charts.example.com"}]}
-- modules/010-forgotten/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: forgotten}}
-- modules/020-dns/charts/dns/Chart.yaml --
{apiVersion: v2, name: dns, version: 0.1.0}
-- modules/030-web/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}
`)
	missing := "Chart.yaml declares the dependency redis, which is not in charts/; run 'helm dependency build " + h.path("modules/010-forgotten")
	alone := h.path("modules/020-dns") + " has charts/, but neither Chart.yaml nor templates/"
	o := h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate")
	o.expect("WARN", alone)
	o.expect("ERROR", missing)
	h.awaitRevisions("web", "1:deployed")
	h.awaitRevisions("forgotten", "")
	o.ask("module list", alone[:40])
	o.ask("why forgotten", missing)
	o.ask("why dns", "problem: "+alone)
	if out, _, _ := h.plan(o.env); !strings.Contains(out, "declares the dependency redis, which is not in charts/") {
		t.Errorf("the plan does not say it:\n%s", out)
	}
	if out := o.command("values", "check"); !containsAll(out, []string{missing, alone}) {
		t.Errorf("values check:\n%s", out)
	}
	h.write("modules/010-forgotten/charts/redis/Chart.yaml", "{apiVersion: v2, name: redis, version: 1.0.0}")
	h.awaitRevisions("forgotten", "1:deployed")
}
