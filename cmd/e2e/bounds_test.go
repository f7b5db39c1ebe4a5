package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"addon-operator/testkit/devclustertest"
)

// What others send is bounded before memory is spent on it. The operator of these tests is
// killed at 512 MiB, as a container with that limit would be, and must stay far below it.
const (
	memoryLimit = 512 * overhead // MiB
	enough      = 300 * overhead // MiB
)

// bounded watches the memory of an operator. The function it returns gives the peak in MiB.
func bounded(o *operator) (peak func() int) {
	var highest atomic.Int64
	look := func() int {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.cmd.Process.Pid)) // it may have ended
		_, rest, _ := strings.Cut(string(status), "VmHWM:")
		kib, _ := strconv.ParseInt(strings.Fields(rest + " 0")[0], 10, 64)
		highest.Store(max(highest.Load(), kib>>10))
		return int(highest.Load())
	}
	go func() {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for look() < memoryLimit {
			select {
			case <-o.exited:
				return
			case <-ticker.C:
			}
		}
		_ = o.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	}()
	return look
}

// expectPeak complains when the operator has used too much.
func expectPeak(t *testing.T, what string, peak func() int) {
	t.Helper()
	if used := peak(); used >= enough {
		t.Errorf("%s: the operator used %d MiB, want less than %d", what, used, enough)
	} else {
		t.Logf("%s: the peak is %d MiB", what, used)
	}
}

func aliasBomb(aliases int) string {
	return "big: &a " + strings.Repeat("x", 600_000) + "\nl: [" + strings.Repeat("*a,", aliases) + "]\n"
}

func nestedBomb(depth int) string {
	return "l: " + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "\n"
}

// A ConfigMap that stands for more than there is memory is an invalid one: refused while the
// operator runs, whatever module it is for, and at the start. D39, D16, D36, D37.
func TestBombInTheConfigMap(t *testing.T) {
	devclustertest.OnlyInFull(t)
	h := newFixture(t, "configmap")
	h.write("modules/030-idle/values.yaml", "idle: {a: 1}\n")
	h.setConfig(map[string]string{"one": "size: 2"})
	const limit = "GOMEMLIMIT=250MiB" // as the operator sets it in a container; without one the peak depends on the load
	o := h.start(limit)
	peak := bounded(o)
	o.ready()
	t.Logf("before any of them the peak is %d MiB", peak())

	const size, depth = "have more than 1 MiB, or more than 50000 keys and values, with all aliases written out; remove values or aliases", "nested more than 100 deep; nest them less"
	for _, bomb := range []struct{ what, key, text, says string }{
		{"aliases", "two", aliasBomb(99_000), "ConfigMap key two: the values " + size},
		{"aliases, global", "global", aliasBomb(99_000), "ConfigMap key global: the values have more"},
		{"aliases, a disabled module", "idle", aliasBomb(99_000), "ConfigMap key idle: the values have more"},
		{"aliases, an unknown module", "nobody", aliasBomb(99_000), "ConfigMap key nobody: the values have more"},
		{"few aliases", "fewer", aliasBomb(250), "ConfigMap key fewer: the values have more"},
		{"lists in lists", "two", nestedBomb(9000), "ConfigMap key two: lists and maps are " + depth},
		{"short values", "wide", "l: [" + strings.Repeat("1,", 450_000) + "]\n", "ConfigMap key wide: the values " + size},
		{"nothing but mistakes", "two", "[" + strings.Repeat("{a,a},", 150_000) + "]\n", `ConfigMap key two: line 1: key "a" is already set in line 1`},
	} {
		h.setConfig(map[string]string{bomb.key: bomb.text})
		expectAll(t, o.expect("ERROR", "ConfigMap and Secret are refused"), bomb.says)
		expectPeak(t, bomb.what, peak)
		h.setConfig(map[string]string{bomb.key: ""})
		o.expect("the values are valid again and in force")
	}
	// What is just wide is accepted. It is more nodes than any person writes.
	h.setConfig(map[string]string{"nobody": "l: [" + strings.Repeat("1,", 45_000) + "]\n"})
	o.expect("the values may have mistakes", "nobody")
	expectPeak(t, "many short values", peak)
	h.setConfig(map[string]string{"one": "size: 3", "nobody": ""})
	h.awaitConfigMap("one", "size", "3")

	h.setConfig(map[string]string{"idle": aliasBomb(99_000)})
	h.shows("the refusal", func() string { return o.body("/readyz?verbose") }, "REFUSED") // the log has the same error only once
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	again := h.start(limit)
	peak = bounded(again)
	if code := again.exit(); code != 1 {
		t.Errorf("exit code %d at a start with the bomb, want 1", code)
	}
	expectAll(t, strings.Join(again.output.lines(), "\n"), "ConfigMap key idle: the values "+size)
	expectPeak(t, "a start", peak)
}

// A values file is refused in the same way, by all that loads modules. D39, A19.
func TestBombInAValuesFile(t *testing.T) {
	devclustertest.OnlyInFull(t)
	h := newFixture(t, "configmap")
	h.write("modules/010-one/values.yaml", "one:\n  big: &a "+strings.Repeat("x", 600_000)+"\n  l: ["+strings.Repeat("*a,", 99_000)+"]\n")
	o := h.start()
	peak := bounded(o)
	if code := o.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	expectAll(t, strings.Join(o.output.lines(), "\n"), "values file 010-one/values.yaml: the values have more than 1 MiB")
	expectPeak(t, "a values file", peak)
}

// What hooks write is bounded, too; a hook that writes too much has failed, and the
// operator goes on. D39, K1.
func TestBombInTheOutputOfHooks(t *testing.T) {
	devclustertest.OnlyInFull(t)
	t.Parallel()
	for what, c := range map[string]struct{ script, says string }{
		"copies of copies": {
			`for i in {1..30}; do echo '{"op":"copy","from":"/two","path":"/two/copy'$i'"}'; done > "$VALUES_JSON_PATCH_PATH"`,
			"the values have more than 1 MiB",
		},
		"a file of mistakes":          {`head -c 1000000 /dev/zero | sed 's/\x00\x00/{}/g' > "$VALUES_JSON_PATCH_PATH"`, "patch operation 1: op is missing"},
		"a large file":                {`head -c 15000000 /dev/zero | tr '\0' ' ' > "$VALUES_JSON_PATCH_PATH"`, "more than 1 MiB"},
		"a flood of wrong operations": {`yes '{"operation":"X"}' | head -800000 > "$KUBERNETES_PATCH_PATH"`, "unknown operation"},
		"a flood of wrong metrics":    {`yes '{"name":"m"}' | head -1200000 > "$METRICS_PATH"`, "there are more problems"},
		"aliases in an object": {
			`{ printf 'operation: Create\nobject:\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: bomb}\n  data: &d\n    a: &a '
			head -c 600000 /dev/zero | tr '\0' x; printf '\n  l: ['; head -c 99000 /dev/zero | sed 's/\x00/*a,/g'; printf ']\n'; } > "$KUBERNETES_PATCH_PATH"`,
			"more than 1 MiB",
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := newFixture(t, "configmap")
			h.write("modules/values.yaml", "global: {zone: a}\noneEnabled: true\ntwoEnabled: true\ntwo: {a: some values}\n")
			h.write("modules/020-two/hooks/bomb.sh", "#!/usr/bin/env bash\nif [[ ${1:-} == --config ]]; then echo '{\"configVersion\": \"v1\", \"beforeHelm\": 1}'; exit; fi\n[[ -e $OUT/fixed ]] && exit\n"+c.script+"\n")
			o := h.start()
			peak := bounded(o)
			expectAll(t, o.expect("ERROR", "will retry", "module=two"), c.says)
			expectPeak(t, what, peak)
			h.write("out/fixed", "")
			o.ready()
			h.awaitConfigMap("one", "size", "1")
		})
	}
}

// sockets is how many an operator has open; 0 where there is no /proc.
func (o *operator) sockets() (n int) {
	dir := fmt.Sprintf("/proc/%d/fd", o.cmd.Process.Pid)
	files, _ := os.ReadDir(dir)
	for _, file := range files {
		if target, _ := os.Readlink(dir + "/" + file.Name()); strings.HasPrefix(target, "socket:") { // it may be closed by now
			n++
		}
	}
	return n
}

// Who opens many connections and sends large headers that never end takes neither the
// memory nor the place of others, on any listener. J8.
func TestManyHalfSentHeaders(t *testing.T) {
	devclustertest.OnlyInFull(t)
	h := newFixture(t, "web")
	o := h.start()
	peak := bounded(o)
	o.ready()
	t.Logf("before them the peak is %d MiB", peak())
	const limit, others = 100, 20 // connections of a listener, and to the API server
	sockets := o.sockets() + others
	for _, address := range []struct{ network, address string }{
		{"tcp", strings.TrimPrefix(o.public, "http://")}, {"tcp", o.debug}, {"unix", h.socket()},
	} {
		sockets += limit
		var dialer net.Dialer
		begin := "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: " + strings.Repeat("x", 1<<20)
		for range 400 {
			c, err := dialer.DialContext(h.ctx, address.network, address.address)
			must(t, err)
			t.Cleanup(func() { c.Close() })
			go func() { _, _ = c.Write([]byte(begin)) }() // it is refused
		}
		// Those that send nothing hold their places as long as they can.
		for range 400 {
			c, err := dialer.DialContext(h.ctx, address.network, address.address)
			must(t, err)
			t.Cleanup(func() { c.Close() })
		}
		// A kubelet has a patience of a second; a machine that compiles gets three. In five they would time out by
		// themselves.
		probe := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, address.network, address.address)
		}}}
		for i := range 20 {
			resp, err := probe.Get("http://localhost/healthz") //nolint:noctx // it has a timeout
			if err != nil {
				t.Fatalf("%s: probe %d: %v", address.address, i, err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: probe %d: %s", address.address, i, resp.Status)
			}
			if n := o.sockets(); n > sockets { // all that asked before this probe are accepted
				t.Fatalf("%s: probe %d: the operator has %d open sockets, want %d at most", address.address, i, n, sockets)
			}
		}
		expectPeak(t, address.address, peak)
	}

	c, err := net.Dial("tcp", strings.TrimPrefix(o.public, "http://")) //nolint:noctx // closed at the end of the test
	must(t, err)
	defer c.Close()
	go func() {
		_, _ = c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: a\r\nX-Large: " + strings.Repeat("x", 16<<10) + "\r\n\r\n"))
	}()
	if answer, _ := bufio.NewReader(c).ReadString('\n'); !strings.Contains(answer, "431") {
		t.Errorf("16 KiB of headers are answered by %q, want 431", answer)
	}
}

// Who asks for a large page, or for a small one many times, and reads nothing takes neither the memory nor the place
// of others. J8.
func TestManyWhoDoNotRead(t *testing.T) {
	devclustertest.OnlyInFull(t)
	h := newFixture(t, "web")
	h.write("global-hooks/series.sh", `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "onStartup": 1}'; exit; fi
for i in {1..1000}; do printf '{"name":"wide","set":1,"labels":{"a":"%02000d"}}\n' $i; done > "$METRICS_PATH"
`)
	o := h.start()
	peak := bounded(o)
	o.ready()
	t.Logf("before them the peak is %d MiB", peak())
	// A place that is not made is free after 15 seconds by itself.
	probe := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	// The kernel has little room for answers in small packets: those that are not read wait in the server.
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var refused error
		err := c.Control(func(fd uintptr) {
			refused = errors.Join(syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096),
				syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536))
		})
		return errors.Join(err, refused)
	}}
	for _, address := range []string{strings.TrimPrefix(o.public, "http://"), o.debug} {
		for what, request := range map[string]string{
			"metrics":       "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
			"probes, often": strings.Repeat("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 100_000),
		} {
			for range 200 {
				c, err := small.DialContext(h.ctx, "tcp", address)
				must(t, err)
				t.Cleanup(func() { c.Close() })
				go func() { _, _ = c.Write([]byte(request)) }()
			}
			for i := range 20 {
				resp, err := probe.Get("http://" + address + "/healthz") //nolint:noctx // it has a timeout
				if err != nil {
					t.Fatalf("%s, %s: probe %d: %v", address, what, i, err)
				}
				resp.Body.Close()
			}
			expectPeak(t, what+" from "+address, peak)
		}
	}
}

// Who plans many large ConfigMaps at once waits; the operator does not run out of memory. J8.
func TestManyLargePlans(t *testing.T) {
	devclustertest.OnlyInFull(t)
	h := newFixture(t, "configmap")
	o := h.start()
	peak := bounded(o)
	o.ready()
	t.Logf("before them the peak is %d MiB", peak())
	keys := map[string]string{}
	for i := range 10 {
		keys[fmt.Sprint("nobody", i)] = "l: [" + strings.Repeat("1,", 50_000) + "]\n"
	}
	body, err := json.Marshal(keys)
	must(t, err)
	const requests, enoughAnswers = 60, 3
	answers := make(chan error, requests)
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	for i := range requests {
		page := []string{"/plan", "/values/check"}[i%2]
		go func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+o.debug+page, bytes.NewReader(body))
			if err != nil {
				answers <- err
				return
			}
			resp, err := http.DefaultClient.Do(request)
			if err == nil {
				resp.Body.Close()
			}
			if err == nil && resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable { // it may have waited for too long
				err = fmt.Errorf("%s: %s", page, resp.Status)
			}
			answers <- err
		}()
	}
	for range enoughAnswers { // the others are still waiting
		must(t, <-answers)
	}
	cancel()
	if code, _ := get("http://" + o.debug + "/queue/list"); code != http.StatusOK { // these do not wait
		t.Errorf("/queue/list answers %d", code)
	}
	expectPeak(t, "60 large plans", peak)
}

// Tenants create more objects of a watched kind than there is memory for. The hook stops, as for a kind that is
// missing, and says so; no other hook waits. P5.4.
func TestSnapshotThatIsTooLarge(t *testing.T) {
	h := newFixture(t, "configmap")
	h.write("modules/020-two/hooks/watch.sh", `#!/usr/bin/env bash
set -euo pipefail
if [[ ${1:-} == --config ]]; then
  cat <<END
configVersion: v1
kubernetes:
- {name: watched, kind: ConfigMap, queue: side, includeSnapshotsFrom: [watched], namespace: {nameSelector: {matchNames: [$NAMESPACE]}}, labelSelector: {matchLabels: {app: watched}}}
END
  exit
fi
jq -r '.[] | "\(.type) \(.snapshots.watched | length)"' "$BINDING_CONTEXT_PATH" >> "$OUT/seen"
`)
	text, labels := strings.Repeat("x", 400_000), map[string]string{"app": "watched"}
	h.createConfigMap("first", text, labels)
	o := h.start(limited(limits{SnapshotLimit: 1 << 20}))
	o.ready()
	h.awaitLines("out/seen", "Synchronization 1")
	h.createConfigMap("second", text, labels)
	h.awaitLines("out/seen", "Synchronization 1", "Event 2")

	h.createConfigMap("third", strings.Repeat("x", 700_000), labels) // also too large without the second one
	o.expect("ERROR", "a binding is too large: its hook does not run", "hook=020-two/hooks/watch.sh", "binding=watched")
	h.becomes("the state of the binding", "1", func() string {
		return o.metric("addon_operator_kube_binding_state", `binding="watched"`, `state="too-large"`)
	})
	h.shows("the reason", func() string { return o.body("/readyz?verbose") }, "too-large (its objects take more than 1048576 bytes")
	h.setConfig(map[string]string{"one": "size: 7"}) // others go on
	h.awaitConfigMap("one", "size", "7")
}

// Somebody edits a large object again and again while its hook fails. One task waits, within
// limits; when the hook succeeds, it learns what is there. C41, C35, P5.
func TestManyEditsWhileAHookFails(t *testing.T) {
	devclustertest.OnlyInFull(t)
	h := newFixture(t, "configmap")
	h.write("modules/020-two/hooks/edits.sh", `#!/usr/bin/env bash
set -euo pipefail
if [[ ${1:-} == --config ]]; then
  cat <<END
configVersion: v1
kubernetes:
- {name: watched, kind: ConfigMap, queue: side, includeSnapshotsFrom: [watched], executeHookOnSynchronization: false, namespace: {nameSelector: {matchNames: [$NAMESPACE]}}, labelSelector: {matchLabels: {app: watched}}}
END
  exit
fi
[[ -e $OUT/fixed ]] || { echo "$(jq length "$BINDING_CONTEXT_PATH")" >> "$OUT/failed"; exit 1; }
jq -r '[.[] | "\(.type) \(.objects | length) \([.snapshots.watched[].object.data.edit // "0"] | max)"] | join(", ")' "$BINDING_CONTEXT_PATH" >> "$OUT/seen"
`)
	h.setConfig(map[string]string{"twoEnabled": "true"})
	text, labels := strings.Repeat("x", 100_000), map[string]string{"app": "watched"}
	for i := range 29 {
		h.createConfigMap(fmt.Sprint("other-", i), text, labels)
	}
	edited := h.createConfigMap("edited", text, labels)
	o := h.start()
	peak := bounded(o)
	o.ready()
	t.Logf("before the edits the peak is %d MiB", peak())
	edits := 0
	edit := func(n int) {
		for range n {
			edits++
			edited.Data["edit"] = fmt.Sprintf("%04d", edits)
			edited = h.updateConfigMap(edited)
		}
	}
	resume := func() {
		h.write("out/fixed", "")
		h.setConfig(map[string]string{"two": "edits: " + fmt.Sprint(edits)}) // F8
	}

	edit(1)
	h.awaitLine("out/failed", "1")
	edit(60) // they may wait, but a file with 60 snapshots is too large
	o.awaitTriggers("side", 60)
	o.awaitQueue("side", 2)
	o.ask("queue list", `edits.sh watched/Modified (60 triggers)`)
	resume()
	h.awaitLines("out/seen", "Event 0 0061", "Synchronization 30 0061")

	h.remove("out/fixed")
	h.remove("out/failed")
	edit(1)
	h.awaitLine("out/failed", "1")
	edit(250) // too many to wait
	o.expect("too many events wait for a hook", "edits.sh", "queue=side")
	o.awaitTriggers("side", 1)
	o.awaitQueue("side", 2)
	resume()
	// A slow operator hears of the last edits when the hook works again.
	h.eventually("a run that sees the last edit", func() error {
		if lines := h.lines("out/seen"); !strings.HasSuffix(lines[len(lines)-1], " 0312") {
			return fmt.Errorf("has %q", lines)
		}
		return nil
	})
	expectPeak(t, "312 edits of 100 KB", peak)
	if got, err := strconv.Atoi(o.metric("addon_operator_tasks_queue_overflows_total", `queue_name="side"`)); err != nil || got < 2 {
		t.Errorf("%d overflows are counted, want 2 or more", got)
	}
}
