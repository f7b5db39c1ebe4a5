package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const liveModules = `
-- modules/values.yaml --
wellEnabled: true
failingEnabled: true
-- modules/010-well/Chart.yaml --
{apiVersion: v2, name: well, version: 1.0.0}
-- modules/010-well/templates/one.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: well}}
-- modules/010-well/hooks/slow.sh --
#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{apiVersion: v1, kind: ConfigMap, executeHookOnSynchronization: false, queue: slow, labelSelector: {matchLabels: {live: "yes"}}}]}'
  exit
fi
read -r line <"$OUT/go"
echo "read $line"
-- modules/020-other/Chart.yaml --
{apiVersion: v2, name: other, version: 1.0.0}
-- modules/020-other/templates/one.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}
-- modules/030-failing/Chart.yaml --
{apiVersion: v2, name: failing, version: 1.0.0}
-- modules/030-failing/hooks/before.sh --
#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, beforeHelm: 1}'
  exit
fi
echo '<b>no & credentials</b>' >&2
exit 3
`

// J18: the live page in a real browser: what changes appears by itself, a backoff counts down, one module is shown
// whole, and the page says when it has lost the operator and comes back. Nothing is red on the console: the policy
// lets through all that the page does.
func TestLivePage(t *testing.T) {
	h := newFixture(t, liveModules)
	o := h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate").ready()
	b := h.browse("http://" + o.debug + "/#%") // what a person types names no module, and is no address
	b.await(`document.querySelector("#rows li") !== null`)
	b.open("http://" + o.debug + "/")
	b.screen(1200, 800, "light")
	// The worst comes first, and a tag that a hook prints is a text.
	b.await(`document.querySelector("#headline").textContent === "1 failing, 1 ready, 1 off"`)
	b.await(`document.querySelector("#rows li").id === "m-failing"`)
	b.await(`document.querySelector("#m-failing").innerText.includes("<b>no & credentials</b>")`)
	b.await(`/next attempt in \d+s/.test(document.querySelector("#m-failing").innerText)`)
	b.eval(`window.same = true`) // is gone when the page is loaded again
	b.screenshot("page")

	// An edit of the ConfigMap appears.
	h.setConfig(map[string]string{"otherEnabled": "true"})
	b.await(`document.querySelector("#headline").textContent === "1 failing, 2 ready"`)

	// A queue grows and drains: the hook reads a line of a pipe.
	h.pipe("out/go")
	for i := range 3 {
		h.createConfigMap(fmt.Sprintf("live-%d", i), "", map[string]string{"live": "yes"})
	}
	b.eval(`document.querySelector("#more-queues summary").click()`)
	b.await(`/"slow": [123] tasks[^]*in progress for \d+s/.test(document.querySelector("#queues").innerText)`)
	b.screenshot("queue")
	lines, err := os.OpenFile(h.path("out/go"), os.O_RDWR, 0) // never waits for a reader
	must(t, err)
	defer lines.Close()
	must(t, second(lines.WriteString(strings.Repeat("go\n", 50))))
	b.await(`/"slow" is empty/.test(document.querySelector("#queues").innerText)`)

	// The filter, by keyboard.
	b.key("/")
	b.await(`document.activeElement.id === "filter"`)
	b.ask("Input.insertText", map[string]any{"text": "fail"}, nil)
	b.await(`document.querySelector("#shown").textContent === "1 of 3 shown"`)
	b.eval(`filter.value = ""; filter.dispatchEvent(new Event("input"))`)

	// One module.
	b.eval(`document.querySelector("#m-well a").click()`)
	b.await(`document.activeElement.id === "detail" && document.querySelector("#detail").innerText.includes("addon-operator suspend well")`)
	b.await(`/slow.sh kubernetes \(.*\) took /.test(document.querySelector("#more-runs").innerText)`)
	b.eval(`document.querySelector("#more-why summary").click()`)
	b.await(`document.querySelector("#more-why").innerText.includes("module well: ready")`)
	b.screenshot("module")
	// What a person opens stays open while the module changes.
	h.setConfig(map[string]string{"otherEnabled": "true", "well": "{size: 7, password: hunter2}"})
	b.eval(`document.querySelector("#more-values summary").click(); document.querySelector("#more-snapshots summary").click(); document.querySelector("#more-hooks summary").click()`)
	b.await(`/well.size\s+7\s+ConfigMap\s+resourceVersion \d+/.test(document.querySelector("#more-values").innerText)`)
	b.await(`document.querySelector("#more-values").innerText.includes("well.password") && !document.body.innerText.includes("hunter2")`)
	b.await(`document.querySelector("#more-snapshots").innerText.includes("ConfigMap")`)
	b.await(`document.querySelector("#more-hooks").innerText.includes("slow.sh")`)
	h.setConfig(map[string]string{"otherEnabled": "true", "well": "{size: 8}"})
	b.await(`/well.size\s+8/.test(document.querySelector("#more-values").innerText)`)
	b.await(`document.querySelector("#more-why").innerText.includes("because of ConfigMap: ")`)
	b.screenshot("module-open")
	for _, scheme := range []string{"dark", "light"} {
		b.screen(1200, 800, scheme)
		h.axe(b, "the detail in "+scheme)
	}
	b.key("Escape")
	b.await(`document.querySelector("#detail").hidden && document.activeElement.textContent === "well"`)

	o.ask("logs well slow.sh", "010-well/hooks/slow.sh kubernetes", "\n  read go\n")
	o.ask("logs failing", "failed: ", "no & credentials")
	for _, scheme := range []string{"light", "dark"} {
		b.screen(390, 800, scheme)
		b.screenshot("narrow-" + scheme)
		if b.eval(`document.documentElement.scrollWidth <= 390`) != "true" {
			t.Errorf("at 390 pixels the page is %s wide", b.eval(`document.documentElement.scrollWidth`))
		}
		h.axe(b, scheme)
	}
	if b.eval(`window.same === true`) != "true" {
		t.Error("the page was loaded again")
	}

	// The operator ends and comes back.
	o.terminate()
	b.await(`!stale.hidden && stale.textContent.startsWith("Stale since ")`)
	b.screenshot("stale")
	h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate", "DEBUG_HTTP_SERVER_ADDR="+o.debug).ready()
	b.await(`stale.hidden`)
	if problems := b.console(); len(problems) > 0 {
		t.Errorf("on the console:\n%s", strings.Join(problems, "\n"))
	}
}

// axe has the accessibility engine look at the page, if its file is given: it is no part of this repository.
func (h *fixture) axe(b *browser, scheme string) {
	engine := os.Getenv("AXE")
	if engine == "" {
		return
	}
	source, err := os.ReadFile(engine)
	must(h.t, err)
	b.eval(string(source) + "; 0")
	if found := b.eval(`axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.html).join(" ")))`); found != "[]" {
		h.t.Errorf("axe finds in %s: %s", scheme, found)
	}
}
