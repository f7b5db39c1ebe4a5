package e2e

import (
	"fmt"
	"testing"
)

const liveStates = `
-- modules/values.yaml --
webEnabled: true
certificatesEnabled: true
metricsCollectorForAllNodesEnabled: true
-- modules/010-certificates/Chart.yaml --
{apiVersion: v2, name: certificates, version: 1.14.2}
-- modules/010-certificates/templates/one.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: issuers}, data: {size: "{{ .Values.certificates.size }}"}}
-- modules/020-web/Chart.yaml --
{apiVersion: v2, name: web, version: 4.11.0, appVersion: 1.11.2}
-- modules/020-web/templates/one.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: {{ if .Values.web.size }}1{{ else }}0{{ end }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "registry.example.com/web/controller:v1.11.2"}]}
-- modules/020-web/hooks/check.sh --
#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, beforeHelm: 1}'
  exit
fi
[ -e "$OUT/fail" ] || exit 0
echo 'cannot reach the load balancer at https://lb.example.com/api/v2/pools: connection refused; its credentials are in the Secret web-lb' >&2
exit 3
-- modules/030-metrics-collector-for-all-nodes/Chart.yaml --
{apiVersion: v2, name: metrics-collector-for-all-nodes, version: 2.0.0}
-- modules/030-metrics-collector-for-all-nodes/templates/one.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: collector}, data: {size: "{{ .Values.metricsCollectorForAllNodes.size }}"}}
`

// pictures looks at the page in two sizes, light and dark: nothing is wider than the window, and names stay in one line.
func (b *browser) pictures(name string) {
	b.t.Helper()
	for _, width := range []int{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			b.screen(width, 800, scheme)
			b.screenshot(fmt.Sprintf("%s-%d-%s", name, width, scheme))
			b.fixture.axe(b, name+" in "+scheme)
		}
		if wide := b.eval(`Math.max(document.documentElement.scrollWidth, innerWidth)`); wide != fmt.Sprint(width) {
			b.t.Errorf("%s: at %d pixels the page is %s wide", name, width, wide)
		}
		if broken := b.eval(`[...document.querySelectorAll("#rows h3")].filter((h) => h.clientHeight > 30).map((h) => h.textContent).join()`); broken != `""` {
			b.t.Errorf("%s: at %d pixels these names are broken: %s", name, width, broken)
		}
		if narrow := b.eval(`[...document.querySelectorAll("#rows .problems")].filter((p) => p.clientWidth && p.clientWidth < 0.9 * document.body.clientWidth).length`); narrow != "0" {
			b.t.Errorf("%s: at %d pixels %s problems do not have the whole width", name, width, narrow)
		}
	}
}

// J18: what is broken, why, and what to do is readable at once: all is well; one module fails, and another one waits behind it; 40
// modules.
func TestLivePageStates(t *testing.T) {
	h := newFixture(t, liveStates)
	o := h.start().ready()
	b := h.browse("http://" + o.debug + "/")
	b.await(`document.querySelector("#headline").textContent === "3 ready"`)
	b.await(`[...document.querySelectorAll("header span")].map((s) => s.textContent).join().includes("namespace ` + h.namespace + `")`)
	b.await(`document.title.startsWith("3 ready – addon-operator") && document.title.includes("` + h.namespace + `, https://127.0.0.1:")`)
	b.pictures("well")
	if silence := b.eval(`silence`); silence != "15000" {
		t.Errorf("the page is called stale after %s ms", silence)
	}

	h.write("out/fail", "")
	h.setConfig(map[string]string{"global": "{a: 1}", "web": "{size: 2}", "metricsCollectorForAllNodes": "{size: 2}"})
	b.await(`document.querySelector("#rows li").id === "m-web" && document.querySelector("#rows li").innerText.includes("cannot reach the load balancer")`)
	b.await(`[...document.querySelectorAll("#m-web code.copy")].map((c) => c.textContent).includes("addon-operator retry web")`)
	b.await(`document.querySelector("#m-metrics-collector-for-all-nodes").innerText.includes("its run waits in queue main behind RunModule of web")`)
	b.await(`document.querySelector("#more-queues").open && /waiting for up to 1\ds/.test(document.querySelector("#more-queues").innerText)`) // after 10 s
	b.pictures("failing")
	b.eval(`document.querySelector("#m-web a").click()`)
	b.await(`document.querySelector("#detail").innerText.includes("registry.example.com/web/controller:v1.11.2")`)
	b.await(`document.querySelector("#more-objects").innerText.includes("Deployment/web")`)
	// Each problem once: what the detail shows is not in the row, nor in the list of the queues.
	b.await(`document.querySelector("#m-web .problems").offsetParent === null && document.querySelector("#detail .problems").innerText.includes("cannot reach")`)
	b.await(`document.querySelector("#queues").innerText.includes("failed attempts") && !document.querySelector("#queues").innerText.includes("cannot reach")`)
	b.pictures("failing-module")
	b.key("Escape")

	h.remove("out/fail")
	b.await(`document.querySelector("#headline").textContent.includes("2 ready") && !document.querySelector("#more-queues").open`)
	b.pictures("progressing")
	o.terminate()

	for i := range 37 {
		dir := fmt.Sprintf("modules/%d-module-n%d/", 100+i, i)
		h.write(dir+"Chart.yaml", fmt.Sprintf("{apiVersion: v2, name: module-n%d, version: 1.%d.0}", i, i))
		h.write(dir+"templates/one.yaml", fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: object-%d}}", i))
		if i%5 > 0 {
			h.write(dir+"values.yaml", fmt.Sprintf("moduleN%dEnabled: true", i))
		}
	}
	h.write("out/fail", "")
	o = h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate").ready()
	b.open("http://" + o.debug + "/")
	b.await(`document.querySelectorAll("#rows li").length === 40 && document.querySelector("#headline").textContent === "1 failing, 31 ready, 8 off"`)
	b.pictures("many")
	if problems := b.console(); len(problems) > 0 {
		t.Errorf("on the console:\n%q", problems)
	}
}
