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

// What the schema of a chart or of a subchart refuses is refused with everything else, before anything is written: the last
// valid values stay in force, and who edits is told the key of the ConfigMap and the path. H22.
func TestSchemaOfChartRefuses(t *testing.T) {
	h := newHouse(t, `
-- modules/values.yaml --
dnsEnabled: true
podinfoEnabled: true
-- modules/010-dns/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: dns}, data: {zone: {{ .Values.dns.zone | quote }}}}
-- modules/010-dns/values.yaml --
dns: {zone: a}
-- modules/020-podinfo/Chart.yaml --
{apiVersion: v2, name: wrapper, version: 0.1.0}
-- modules/020-podinfo/charts/podinfo/Chart.yaml --
{apiVersion: v2, name: podinfo, version: 1.0.0}
-- modules/020-podinfo/charts/podinfo/values.yaml --
replicaCount: 1
-- modules/020-podinfo/charts/podinfo/values.schema.json --
{"properties": {"replicaCount": {"type": "integer"}, "token": {"pattern": "^t-"}}}
-- modules/020-podinfo/charts/podinfo/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: podinfo}, data: {replicas: {{ .Values.replicaCount | quote }}}}
`)
	o := h.start().ready()
	h.setConfig(map[string]string{"podinfo": "replicaCount: many\ntoken: hunter2\n", "dns": "zone: b\n"})
	schema := h.path("modules/020-podinfo/charts/podinfo/values.schema.json")
	refused := []string{"ConfigMap key podinfo: ", schema, "podinfo.replicaCount: must be an integer, is a text", "podinfo.token: must match the pattern ^t-"}
	if line := o.expect(append(refused, "the ConfigMap is refused as a whole")...); strings.Contains(line, "hunter2") {
		t.Errorf("the log shows a value: %s", line)
	}
	h.awaitEvent(append(refused, "Warning Refused")...)
	h.awaitConfigMap("dns", "zone", "a")
	h.write("cm.yaml", "podinfo: 'replicaCount: 1.5'\ndns: 'zone: b'\n")
	if out, _, code := h.plan(o.env, "-f", "cm.yaml"); code != 1 || !strings.Contains(out, "podinfo.replicaCount: must be an integer, is a number") {
		t.Errorf("plan: exit code %d\n%s", code, out)
	}
	if out := o.command("values", "check", "--config-map", h.path("cm.yaml")); !containsAll(out, []string{"ConfigMap key podinfo: ", "podinfo.replicaCount: must be an integer"}) {
		t.Errorf("values check:\n%s", out)
	}

	// A chart that has come with a stricter schema stops neither the operator nor edits of others.
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	o = h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate")
	o.expect("ERROR", "values do not fit the schema of a chart", "podinfo.replicaCount")
	h.awaitConfigMap("dns", "zone", "b")
	o.expect("ERROR", "podinfo", "the values do not fit the schema of the chart: podinfo.replicaCount: must be an integer")
	h.awaitConfigMap("podinfo", "replicas", "1")
	h.setConfig(map[string]string{"dns": "zone: c\n"})
	h.awaitConfigMap("dns", "zone", "c")
	h.setConfig(map[string]string{"podinfo": "replicaCount: 2\n"})
	h.awaitConfigMap("podinfo", "replicas", "2")
}
