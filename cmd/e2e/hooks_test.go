package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"addon-operator/testkit/devclustertest"
)

// ownFixture is a fixture on a cluster that the test has for itself. The test runs in parallel with others.
func ownFixture(t *testing.T, name string, start func(testing.TB) *devclustertest.Cluster) (*fixture, *devclustertest.Cluster) {
	t.Helper()
	t.Parallel()
	return fixtureWithCluster(t, name, start)
}

// fixtureWithCluster is ownFixture for tests that say themselves whether they are parallel.
func fixtureWithCluster(t *testing.T, name string, start func(testing.TB) *devclustertest.Cluster) (*fixture, *devclustertest.Cluster) {
	t.Helper()
	h := fixtureOn(t, devclustertest.Start(t), name)
	cluster := start(t)
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	must(t, err)
	h.kubeconfig, h.client = cluster.Kubeconfig(), client
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}}
	must(t, second(client.CoreV1().Namespaces().Create(h.ctx, namespace, metav1.CreateOptions{})))
	return h, cluster
}

// lines are the lines of a file that hooks write.
func (h *fixture) lines(name string) []string {
	h.t.Helper()
	return strings.FieldsFunc(h.read(name), func(r rune) bool { return r == '\n' })
}

// awaitLine waits for a line of a file that hooks write.
func (h *fixture) awaitLine(name, want string) {
	h.t.Helper()
	h.eventually("a line in "+name, func() error {
		if lines := h.lines(name); !slices.Contains(lines, want) {
			return fmt.Errorf("has %q, want %q", lines, want)
		}
		return nil
	})
}

// metric is the value of a series of /metrics whose line begins with the name and has all
// these parts; "" when there is none.
func (o *operator) metric(name string, parts ...string) string {
	o.fixture.t.Helper()
	_, body := get(o.public + "/metrics")
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasPrefix(line, name) && containsAll(line, parts) {
			return line[strings.LastIndexByte(line, ' ')+1:]
		}
	}
	return ""
}

// Both protocols on Pods, ConfigMaps and a kind whose definition comes five seconds after
// the start: the hooks of that kind wait, the others do not. C15, C16, C19, C31, C32.
func TestHooksOfBothProtocols(t *testing.T) {
	h := newFixture(t, "hooks")
	widget := devclustertest.Kind("Widget") // the hooks name it without its API version
	for _, name := range []string{"widgets.yaml", "widget.yaml"} {
		h.write(name, strings.NewReplacer("WIDGETS", strings.ToLower(widget)+"s", "WIDGET", widget).Replace(h.read(name)))
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	must(t, second(h.client.CoreV1().Pods(h.namespace).Create(h.ctx, pod, metav1.CreateOptions{})))
	o := h.start("WIDGET=" + widget).ready()
	h.awaitLine("out/v1", "pods Synchronization web")
	h.awaitLine("out/v1", "configmaps Synchronization ")
	_, verbose := get(o.public + "/readyz?verbose")
	expectAll(t, verbose, "waiting-for-kind")
	if got := o.metric("addon_operator_kube_binding_state", `binding="widgets"`, `state="waiting-for-kind"`); got != "1" {
		t.Errorf("kube_binding_state of widgets: %q", got)
	}

	t.Cleanup(func() { // the definition belongs to the cluster, which other tests share
		must(t, h.tryIn(context.Background(), "delete", "--ignore-not-found", "-f", h.path("widgets.yaml")))
	})
	five := time.NewTimer(5 * time.Second)
	defer five.Stop()
	h.createConfigMap("a", "x", map[string]string{"app": "watched"})
	h.awaitLine("out/v1", "configmaps Added a")
	h.awaitLine("out/v0", "cm add "+h.namespace+"/ConfigMap/a")
	<-five.C
	h.kubectl("apply", "-f", h.path("widgets.yaml"))
	h.awaitLine("out/v1", "widgets Synchronization ")
	h.eventually("a widget", func() error { return h.try("apply", "-n", h.namespace, "-f", h.path("widget.yaml")) })
	h.awaitLine("out/v1", "widgets Added w")
	h.awaitLine("out/v0", "widget add "+h.namespace+"/"+widget+"/w")
	must(t, h.client.CoreV1().Pods(h.namespace).Delete(h.ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	h.awaitLine("out/v1", "pods Deleted web")
	h.awaitLine("out/v0", "pod delete "+h.namespace+"/Pod/web")
	if got := o.metric("addon_operator_kube_binding_state", `binding="widgets"`); got != "1" {
		t.Errorf("kube_binding_state of widgets: %q", got)
	}
	if lines := h.lines("out/v0"); len(lines) != 3 {
		t.Errorf("the v0 hooks saw %q", lines)
	}
}

// Each object reaches the hook exactly once, though the API server is killed and comes
// back while they are created. Issue 3.5.
func TestThousandConfigMapsAcrossACrashOfTheAPIServer(t *testing.T) {
	devclustertest.OnlyInFull(t)
	h, cluster := ownFixture(t, "burst", devclustertest.Borrow)
	o := h.start().ready()
	h.awaitLine("out/seen", "synchronized 0")
	const total = 1000
	names := make(chan string)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for name := range names {
				h.createUntilThere(name)
			}
		})
	}
	for i := range total {
		if i == total/2 {
			cluster.Restart(t)
		}
		names <- fmt.Sprintf("burst-%04d", i)
	}
	close(names)
	workers.Wait()
	h.eventually("all ConfigMaps in the hook", func() error {
		if n := len(h.lines("out/seen")) - 1; n < total {
			return fmt.Errorf("%d of %d", n, total)
		}
		return nil
	})
	h.createUntilThere("last") // whatever is reported twice comes before it
	h.awaitLine("out/seen", "Added last")
	seen := map[string]int{}
	for _, line := range h.lines("out/seen")[1:] {
		seen[line]++
	}
	for line, n := range seen {
		if n != 1 {
			t.Errorf("%q: %d times", line, n)
		}
	}
	if len(seen) != total+1 {
		t.Errorf("%d objects reached the hook, want %d", len(seen), total+1)
	}
	if !o.running() {
		t.Error("the operator has ended")
	}
}

// createUntilThere creates a ConfigMap, also while the API server is away. A creation whose
// answer was lost is one.
func (h *fixture) createUntilThere(name string) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "watched"}}}
	deadline := time.Now().Add(patience)
	for {
		_, err := h.client.CoreV1().ConfigMaps(h.namespace).Create(h.ctx, cm, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			return
		}
		if time.Now().After(deadline) {
			h.t.Errorf("create %s: %v", name, err)
			return
		}
		select {
		case <-h.ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}

// A filter that would make gigabytes of an object in one step, or a result that is too large to read, fails at once;
// the operator stays far below its limit of memory. C37, C39.
func TestFiltersThatMakeMuchOfLittle(t *testing.T) {
	devclustertest.OnlyInFull(t)
	h := newFixture(t, "-- modules/values.yaml --\nfiltersEnabled: true\n")
	for name, filter := range map[string]string{
		"index": `[] | .[536870911] = 1`, "path": `[] | setpath([536870911]; 1)`, "repeat": `"x" * 1000000000`, "doubled": `reduce range(40) as $i ("x"; . + .)`,
		"list": `[range(1e9) | "x" * 1000000]`, "nested": `reduce range(200000) as $i (1; {a: .})`, "shared": `reduce range(60) as $i (1; [., .])`,
	} {
		h.write("modules/010-filters/hooks/"+name+".sh", `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then
  cat <<END
configVersion: v1
kubernetes:
- {name: `+name+`, kind: ConfigMap, queue: `+name+`, namespace: {nameSelector: {matchNames: [$NAMESPACE]}}, labelSelector: {matchLabels: {app: watched}}, jqFilter: '`+strings.NewReplacer(`$`, `\$`, `\`, `\\`).Replace(filter)+`'}
END
  exit
fi
jq -r '.[] | select(.type == "Event") | .object.metadata.name' "$BINDING_CONTEXT_PATH" >> "$OUT/`+name+`"
`)
	}
	o := h.start()
	peak := bounded(o)
	o.ready()
	h.createConfigMap("fine", "x", map[string]string{"app": "watched"})
	for _, name := range []string{"index", "path", "repeat", "doubled", "list", "nested", "shared"} {
		h.awaitLine("out/"+name, "fine")
		if got := o.metric("addon_operator_kube_jq_filter_errors_total", `binding="`+name+`"`); got != "1" {
			t.Errorf("%s: %s failures", name, got)
		}
	}
	expectPeak(t, "filters", peak)
}

// grant lets the ServiceAccount operator do something in the namespace of the fixture.
func (h *fixture) grant(name string, rule rbacv1.PolicyRule) {
	h.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "operator", Namespace: h.namespace}},
	}
	_, err := h.client.RbacV1().Roles(h.namespace).Create(h.ctx, role, metav1.CreateOptions{})
	if err == nil {
		_, err = h.client.RbacV1().RoleBindings(h.namespace).Create(h.ctx, binding, metav1.CreateOptions{})
	}
	must(h.t, err)
}

// serviceAccount returns a kubeconfig with the token of a ServiceAccount, which it makes if there is none.
func (h *fixture) serviceAccount(name string) string {
	h.t.Helper()
	accounts := h.client.CoreV1().ServiceAccounts(h.namespace)
	if _, err := accounts.Create(h.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		h.t.Fatal(err)
	}
	token, err := accounts.CreateToken(h.ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(h.t, err)
	config, err := clientcmd.LoadFromFile(h.kubeconfig)
	must(h.t, err)
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	path := h.path("kubeconfig-of-" + name)
	must(h.t, clientcmd.WriteToFile(*config, path))
	return path
}

// What hooks write to KUBERNETES_PATCH_PATH: all operations, also of a hook that fails for
// those with ignoreHookError, and nothing of a file that is wrong somewhere. K1, K4, K9, X27.
func TestObjectPatchesOfHooks(t *testing.T) {
	h := newFixture(t, "patches")
	h.createConfigMap("status", "old", nil)
	h.createConfigMap("victim", "x", nil)
	h.createConfigMap("counter", "1", nil)
	o := h.start("JQ_LIBRARY_PATH=" + h.path("jq"))
	o.expect("ERROR", "patches/hooks/refused.sh", "KUBERNETES_PATCH_PATH: document 2: unknown operation")
	if got := h.configMap("half"); got != nil {
		t.Errorf("a part of a refused file was applied: %v", got)
	}
	o.expect("ERROR", "patches/hooks/fails.sh", "exit code 1: on purpose")
	h.awaitConfigMap("status", "key", "failed")
	if got := h.configMap("never"); got != nil {
		t.Errorf("a failed hook was obeyed: %v", got)
	}
	o.ready()
	h.awaitConfigMap("made", "key", "merged")
	h.awaitConfigMap("counter", "key", "2")
	if got := h.configMap("victim"); got != nil {
		t.Errorf("it was not deleted: %v", got)
	}
	if status, body := get(o.public + "/metrics/hooks"); status != http.StatusOK || !strings.Contains(body, `patched_total{hook="010-patches/hooks/good.sh",module="patches"} 1`) {
		t.Errorf("%d %s", status, body)
	}
}

// kubectl runs kubectl as the admin.
func (h *fixture) kubectl(args ...string) {
	h.t.Helper()
	must(h.t, h.try(args...))
}

func (h *fixture) try(args ...string) error { return h.tryIn(h.ctx, args...) }

// get asks for an object of the fixture, or for a CRD: "things.example.com", "crd" or "configmap". A kubectl for each
// question costs a tenth of a second of a processor.
func (h *fixture) get(resource, name string) error {
	plural, group, _ := strings.Cut(resource, ".")
	path := "/apis/" + group + "/v1/namespaces/" + h.namespace + "/" + plural + "/" + name
	switch resource {
	case "crd":
		path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + name
	case "configmap", "service":
		path = "/api/v1/namespaces/" + h.namespace + "/" + resource + "s/" + name
	}
	return h.client.CoreV1().RESTClient().Get().AbsPath(path).Do(h.ctx).Error()
}

func (h *fixture) tryIn(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, h.tools+"/kubectl", append([]string{"--kubeconfig", h.kubeconfig}, args...)...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl %v: %w\n%s", args, err, output)
	}
	return nil
}

// A batch file of a module is several hooks: one gives the chart a value, another one sees all
// snapshots of its group, and the probe that fails holds nothing up. Issue 14.15.
func TestBatchOfHooks(t *testing.T) {
	h := newFixture(t, "web")
	h.write("modules/010-web/hooks/batch", `#!/usr/bin/env bash
set -euo pipefail
case "$1 $2" in
"hook config")
  cat <<END
{"version": "v1", "hooks": [
  {"configVersion": "v1", "metadata": {"name": "size"}, "beforeHelm": 1},
  {"configVersion": "v1", "metadata": {"name": "watch"}, "kubernetes": [
    {"name": "one", "kind": "ConfigMap", "nameSelector": {"matchNames": ["one"]}, "namespace": {"nameSelector": {"matchNames": ["$NAMESPACE"]}}, "jqFilter": ".metadata.name"},
    {"name": "two", "kind": "ConfigMap", "nameSelector": {"matchNames": ["two"]}, "namespace": {"nameSelector": {"matchNames": ["$NAMESPACE"]}}, "jqFilter": ".metadata.name"}]}],
 "readiness": {"configVersion": "v1", "metadata": {"name": "readiness"}, "schedule": [{"name": "probe", "crontab": "* * * * * *"}]}}
END
  ;;
"hook run")
  case "$3" in
  0) echo '{"op": "add", "path": "/web/size", "value": "by batch"}' >"$VALUES_JSON_PATCH_PATH" ;;
  1) jq -rc '.[-1].snapshots | [.one[]?.filterResult, .two[]?.filterResult] | join(" ")' "$BINDING_CONTEXT_PATH" >>"$OUT/snapshots" ;;
  esac
  ;;
"hook ready") echo "asked $MODULE_NAME" >>"$OUT/probes"; exit 1 ;;
esac
`)
	h.createConfigMap("one", "k", nil)
	o := h.start().ready()
	h.awaitConfigMap("web", "size", "by batch")
	h.awaitLine("out/snapshots", "one")
	h.createConfigMap("two", "k", nil)
	h.awaitLine("out/snapshots", "one two")
	h.awaitLine("out/probes", "asked web")
	o.ask("hook list", "010-web/hooks/batch:size:0", "010-web/hooks/batch:watch:1", "010-web/hooks/batch:ready")
	if got := o.metric("addon_operator_module_hook_allowed_errors_total", `hook="010-web/hooks/batch:ready"`); got == "" {
		t.Error("the failed probe is not counted")
	}
}

// noise counts the numbered lines of a noisy hook in the log.
type noise struct {
	mu     sync.Mutex
	lines  int
	bytes  int
	broken string // the first line that is not whole, or comes twice
	seen   map[string]bool
	// filling is what comes behind the number of a line.
	filling []byte
}

// What noisy.txtar prints in a line: noise-0000001, a space, and the filling.
const (
	noiseMark    = `"msg":"noise-`
	noiseDigits  = 7
	noiseFilling = 4000
)

func newNoise() *noise {
	return &noise{seen: map[string]bool{}, filling: []byte(" " + strings.Repeat("x", noiseFilling) + `"`)}
}

// sieve keeps all lines but those of the hook.
func (n *noise) sieve(line []byte) bool {
	if !bytes.Contains(line, []byte("noise-")) {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines++
	n.bytes += len(line)
	_, rest, found := bytes.Cut(line, []byte(noiseMark))
	number := string(rest[:min(len(rest), noiseDigits)])
	whole := found && bytes.HasPrefix(rest[len(number):], n.filling)
	if n.broken == "" && (!whole || n.seen[number]) {
		n.broken = string(line)
	}
	n.seen[number] = true
	return false
}

func (n *noise) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lines
}

// await waits as long as more and more lines come: how long that takes is up to the machine.
func (n *noise) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	last, deadline := -1, time.Now()
	for !done() {
		if now := n.count(); now != last {
			last, deadline = now, time.Now().Add(patience)
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s; no line came after the first %d", patience, what, last)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("waiting for %s: %v", what, t.Context().Err())
		case <-time.After(pollInterval):
		}
	}
}

// A hook prints 100 MB, on both streams: each line is in the log, once and whole; the
// operator does not hold them in memory; and while the hook prints, one in another queue
// handles an event. C27, C28, issue 3 'bad input'.
func TestHookPrintsHundredMegabytes(t *testing.T) {
	devclustertest.OnlyInFull(t)
	h := newFixture(t, "noisy")
	noise := newNoise()
	h.sieve = noise.sieve
	o := h.start("LOG_TYPE=json").ready()
	peak := bounded(o)
	before := peak()
	h.createConfigMap("start", "x", map[string]string{"app": "noise"})
	noise.await(t, "the first lines", func() bool { return noise.count() > 0 })
	h.createConfigMap("probe", "x", map[string]string{"app": "watched"})
	h.awaitLine("out/good", "probe")
	if h.read("out/printed") != "" {
		t.Error("the event was handled only after the noisy hook")
	}
	noise.await(t, "all lines", func() bool {
		printed, err := strconv.Atoi(strings.TrimSpace(h.read("out/printed")))
		return err == nil && noise.count() >= printed
	})
	o.expect("INFO no-newline-at-the-end", "hook=010-noisy/hooks/noisy.sh")
	if noise.broken != "" || noise.bytes < 100_000_000 || noise.count() != len(noise.seen) {
		t.Errorf("%d lines of %d bytes, %d different ones; one that is not as it was printed: %.200s", noise.lines, noise.bytes, len(noise.seen), noise.broken)
	}
	const enough = 64 * overhead // MiB
	if grown := peak() - before; grown > enough {
		t.Errorf("the memory of the operator has grown by %d MiB while 100 MB passed through it", grown)
	}
	if n := o.count("ERROR"); n != 0 {
		t.Errorf("%d errors", n)
	}
}
