package e2e

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browser is a page in a headless Chromium, spoken to over a pipe in its DevTools protocol: the few words that these
// tests need.
type browser struct {
	t       *testing.T
	fixture *fixture
	orders  io.Writer // a zero byte ends each message
	session string    // of the page

	mu       sync.Mutex
	asked    int
	answers  map[int]chan json.RawMessage
	problems []string // errors on the console and exceptions, whole
}

// chromium is the program, or "" where there is none.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// browse opens a page. Where there is no browser the test is skipped, unless $CHROMIUM says that there must be one.
func (h *fixture) browse(url string) *browser {
	t := h.t.(*testing.T)
	t.Helper()
	program := chromium()
	if program == "" {
		if os.Getenv("CHROMIUM") == "required" {
			t.Fatal("there is no chromium")
		}
		t.Skip("there is no chromium: apt-get install chromium")
	}
	orders, err1 := pipe(t)
	answers, err2 := pipe(t)
	must(t, errors.Join(err1, err2))
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--remote-debugging-pipe", "--user-data-dir="+h.path("browser"), "about:blank")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.ExtraFiles = []*os.File{orders.reads, answers.writes} // 3 and 4, where the browser expects them
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with its children
		_ = cmd.Wait()
	})
	b := &browser{t: t, fixture: h, orders: orders.writes, answers: map[int]chan json.RawMessage{}}
	go b.listen(answers.reads)
	b.connect()
	b.open(url)
	return b
}

// ends are the two ends of a pipe.
type ends struct{ reads, writes *os.File }

// pipe makes a pipe that is closed with the test.
func pipe(t *testing.T) (p ends, err error) {
	p.reads, p.writes, err = os.Pipe()
	t.Cleanup(func() { _, _ = p.reads.Close(), p.writes.Close() })
	return p, err
}

// connect speaks to the only page of the browser.
func (b *browser) connect() {
	b.t.Helper()
	var targets struct {
		TargetInfos []struct{ Type, TargetID string }
	}
	isPage := func(target struct{ Type, TargetID string }) bool { return target.Type == "page" }
	b.fixture.eventually("a page in the browser", func() error {
		b.ask("Target.getTargets", struct{}{}, &targets)
		if !slices.ContainsFunc(targets.TargetInfos, isPage) {
			return errNotYet
		}
		return nil
	})
	page := targets.TargetInfos[slices.IndexFunc(targets.TargetInfos, isPage)]
	var attached struct{ SessionID string }
	b.ask("Target.attachToTarget", map[string]any{"targetId": page.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.ask(domain+".enable", struct{}{}, nil)
	}
}

// listen hands out answers, and remembers what a person would see in red on the console.
func (b *browser) listen(answers io.Reader) {
	reader := bufio.NewReader(answers)
	for {
		data, err := reader.ReadBytes(0)
		if err != nil {
			return // the test has ended
		}
		var message struct {
			ID             int
			Method         string
			Params, Result json.RawMessage
			Error          json.RawMessage
		}
		if json.Unmarshal(data[:len(data)-1], &message) != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case message.ID > 0 && message.Error != nil:
			b.answers[message.ID] <- nil
		case message.ID > 0:
			b.answers[message.ID] <- message.Result
		case message.Method == "Runtime.exceptionThrown", message.Method == "Log.entryAdded" && strings.Contains(string(message.Params), `"level":"error"`):
			b.problems = append(b.problems, string(message.Params))
		}
		b.mu.Unlock()
	}
}

// ask gives an order to the browser and waits for the answer.
func (b *browser) ask(method string, params, answer any) {
	b.t.Helper()
	if err := b.mayAsk(method, params, answer); err != nil {
		b.t.Fatal(err)
	}
}

// mayAsk is ask that returns the refusal of the browser.
func (b *browser) mayAsk(method string, params, answer any) error {
	b.t.Helper()
	got := make(chan json.RawMessage, 1)
	b.mu.Lock()
	b.asked++
	id := b.asked
	b.answers[id] = got
	order := map[string]any{"id": id, "method": method, "params": params}
	if b.session != "" {
		order["sessionId"] = b.session
	}
	text, err := json.Marshal(order)
	if err == nil {
		_, err = b.orders.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		b.t.Fatal(err)
	}
	select {
	case result := <-got:
		if result == nil {
			return fmt.Errorf("the browser refuses %s %v", method, params)
		}
		if answer != nil {
			if err := json.Unmarshal(result, answer); err != nil {
				b.t.Fatal(err)
			}
		}
	case <-time.After(patience):
		b.t.Fatalf("the browser does not answer %s", method)
	}
	return nil
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.ask("Page.navigate", map[string]any{"url": url}, nil)
}

// eval is the value of an expression, as JSON; a promise is waited for.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	value, err := b.try(expression)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// try is eval that returns the exception of an expression that throws, and the refusal of a page that is being left.
func (b *browser) try(expression string) (string, error) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	if err := b.mayAsk("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer); err != nil {
		return "", err
	}
	if answer.ExceptionDetails != nil {
		return "", fmt.Errorf("%.200s: %s", expression, answer.ExceptionDetails)
	}
	return string(answer.Result.Value), nil
}

// await waits until an expression is true. One that throws is not true yet: while a page loads, it lacks elements.
func (b *browser) await(expression string) {
	b.t.Helper()
	b.fixture.eventually("in the browser: "+expression, func() error {
		value, err := b.try("Boolean(" + expression + ")")
		if err != nil {
			return err
		}
		if value != "true" {
			text, _ := b.try("document.body ? document.body.innerText : ''") // of a page that may be left meanwhile
			return fmt.Errorf("the page is:\n%s", text)
		}
		return nil
	})
}

// key presses a key.
func (b *browser) key(key string) {
	b.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.ask("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key}, nil)
	}
}

// screen sets the size of the window and the colours that the person prefers.
func (b *browser) screen(width, height int, scheme string) {
	b.t.Helper()
	b.ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	b.ask("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// screenshot keeps a picture in the directory $SCREENSHOTS, if there is one.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	var shot struct{ Data string }
	b.ask("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil || len(picture) == 0 {
		b.t.Fatalf("no picture: %v", err)
	}
	if dir := os.Getenv("SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

// console is what a person would see in red, without the connections that a stopped operator refuses.
func (b *browser) console() (problems []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		if !regexp.MustCompile(`net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE)`).MatchString(p) {
			problems = append(problems, p)
		}
	}
	return problems
}

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

	noProblems := func(but string) {
		t.Helper()
		if problems := slices.DeleteFunc(b.console(), regexp.MustCompile(but).MatchString); len(problems) > 0 {
			t.Errorf("on the console:\n%s", strings.Join(problems, "\n"))
		}
	}
	noProblems("^$")

	// The operator ends and comes back. Some pages are not there yet while it starts.
	o.terminate()
	b.await(`!stale.hidden && stale.textContent.startsWith("Stale since ")`)
	b.screenshot("stale")
	h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate", "DEBUG_HTTP_SERVER_ADDR="+o.debug).ready()
	b.await(`stale.hidden`)
	noProblems("status of 503")
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

// pictures looks at the page in two sizes, light and dark: nothing is wider than the window, and names stay in one
// line.
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

// J18: what is broken, why, and what to do is readable at once: all is well; one module fails, and another one waits
// behind it; 40 modules.
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
	b.await(`document.querySelector("#m-metrics-collector-for-all-nodes").innerText.includes("waits in queue main behind RunModule of web")`)
	b.await(`document.querySelector("#more-queues").open && /waiting for up to 1\ds/.test(document.querySelector("#more-queues").innerText)`) // after 10 s
	b.pictures("failing")
	b.eval(`document.querySelector("#m-web a").click()`)
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
