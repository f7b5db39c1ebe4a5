package e2e

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// kubectl in hooks uses the cluster of the operator: a kubeconfig and a context that only an option names, by a path
// that is relative to the directory of the operator, as roots may be, also when the kubeconfig has another current
// context. A1.
func TestHooksUseTheClusterOfTheOperator(t *testing.T) {
	h := newFixture(t, `
-- global-hooks/look --
#!/bin/bash
[[ $1 == --config ]] && { echo '{"configVersion": "v1", "onStartup": 1}'; exit; }
kubectl get namespace "$NAMESPACE" -o name >>"$OUT/journal"
`)
	text, err := os.ReadFile(h.kubeconfig)
	must(t, err)
	var current string
	for line := range strings.Lines(string(text)) {
		if name, is := strings.CutPrefix(line, "current-context: "); is {
			current = strings.TrimSpace(name)
		}
	}
	h.write("plain.yaml", string(text))
	h.write("cluster.yaml", strings.Replace(string(text), "current-context: "+current, "current-context: nothing", 1))
	options := []string{"KUBECONFIG=", "KUBE_CONFIG=cluster.yaml", "KUBE_CONTEXT=" + current, "MODULES_DIR=modules", "GLOBAL_HOOKS_DIR=global-hooks"}
	for _, environment := range [][]string{{"KUBECONFIG=plain.yaml"}, options, options} {
		o := h.start(environment...)
		h.awaitJournal("namespace/" + h.namespace)
		o.kill()
		h.remove("out/journal")
	}
	o := h.start(options...)
	h.awaitJournal("namespace/" + h.namespace)
	o.terminate() // removes what those have left that were killed, too
	if left, err := os.ReadDir(h.path("tmp")); err != nil || len(left) > 0 {
		t.Errorf("left in the directory for temporary files: %v, %v", left, err)
	}
}

// Without its namespace the operator says so, and goes on as soon as there is one.
func TestNamespaceDoesNotExist(t *testing.T) {
	h := newFixture(t, "web")
	namespaces := h.client.CoreV1().Namespaces()
	h.namespace += "-not"
	o := h.start("ADDON_OPERATOR_NAMESPACE=" + h.namespace)
	line := o.expect("ERROR", "will retry", "module=web")
	expectAll(t, line, `namespaces "`+h.namespace+`" not found`)
	if status, _ := get(o.public + "/readyz"); status != http.StatusInternalServerError {
		t.Errorf("/readyz is %d without a namespace", status)
	}
	must(t, second(namespaces.Create(h.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}}, metav1.CreateOptions{})))
	t.Cleanup(func() {
		// The test's own context is cancelled by now, and the cluster goes with the process.
		_ = namespaces.Delete(context.Background(), h.namespace, metav1.DeleteOptions{})
	})
	o.ready()
	h.awaitRevisions("web", "1:deployed")
}

// The operator may be started before its API server: it waits, is alive and not ready.
// Issue 2, "Bad input".
func TestAPIServerIsAwayAtTheStart(t *testing.T) {
	h := newFixture(t, "web")
	port := freePort(t)
	o := h.start("KUBE_SERVER=https://127.0.0.1:" + port)
	line := o.expect("ERROR", "the ConfigMap cannot be read, will retry")
	expectAll(t, line, "127.0.0.1:"+port, "connection refused", "check that the API server is up", "in=5")
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusInternalServerError, "/metrics": http.StatusOK} {
		if status, body := get(o.public + path); status != want {
			t.Errorf("%s answers %d %s, want %d", path, status, body, want)
		}
	}
	newLine(t, "127.0.0.1:"+port, devclustertest.Start(t).RESTConfig().Host)
	o.ready()
	h.awaitRevisions("web", "1:deployed")
}

// The memory limit of the container counts for the runtime: it collects garbage before the kernel kills the process.
// C29.
func TestMemoryLimitOfTheContainer(t *testing.T) {
	const mounts = "mount -t tmpfs none /sys/fs/cgroup"
	if out, err := exec.Command("unshare", "-rm", "sh", "-c", mounts).CombinedOutput(); err != nil {
		t.Skipf("control groups cannot be replaced for a process: %v: %s", err, out)
	}
	h := newFixture(t, "-- modules/values.yaml --\n")
	// Both versions of control groups, as a container with a limit of 400 MiB has them.
	h.within = []string{"unshare", "-rm", "sh", "-c", mounts + ` && mkdir /sys/fs/cgroup/memory &&
		echo 419430400 > /sys/fs/cgroup/memory.max && echo 419430400 > /sys/fs/cgroup/memory/memory.limit_in_bytes && exec "$0"`}
	if got := h.start().ready().metric("go_gc_gomemlimit_bytes"); got != "3.7748736e+08" {
		t.Errorf("90 %% of 400 MiB do not count: %q", got)
	}
}

// A hook that reports a series more for each object takes neither the memory of the operator nor that of Prometheus:
// new series beyond the limit are dropped, and counted; those of others stay. I6, I7.
func TestSeriesOfAHookAreLimited(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
manyEnabled: true
-- modules/010-many/hooks/many.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "onStartup": 1}'; exit; fi
for i in {1..1045}; do echo '{"name": "many", "set": 1, "labels": {"object": "'$i'"}}'; done > "$METRICS_PATH"
-- modules/010-many/hooks/one.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "onStartup": 2}'; exit; fi
echo '{"name": "one", "set": 1}' > "$METRICS_PATH"
`)
	o := h.start().ready()
	_, page := get(o.public + "/metrics/hooks")
	if many, one := strings.Count(page, "\nmany{"), strings.Count(page, "\none{"); many != 1000 || one != 1 {
		t.Errorf("there are %d series of one hook and %d of the other, want 1000 and 1", many, one)
	}
	if got := o.metric("addon_operator_hook_metrics_dropped_total", "many.sh"); got != "45" {
		t.Errorf("%q dropped ones are counted", got)
	}
}

// What lies where others could replace it, or would be shown to others, is refused at the start, by the name of the
// option. B3, J7, C24.
func TestOptionsThatExposeSecrets(t *testing.T) {
	h := newFixture(t, "-- modules/values.yaml --\n")
	h.mkdir("open")
	must(t, os.Chmod(h.path("open"), 0o777))
	for env, says := range map[string]string{
		"DEBUG_HTTP_SERVER_ADDR=0.0.0.0:0":         "DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK=true",
		"ADDON_OPERATOR_TMP_DIR=" + h.path("open"): "others may write to it (mode 0777)",
		"ADDON_OPERATOR_HOOK_ENV=PATH":             "OTEL_EXPORTER_OTLP_*HEADERS",
	} {
		o := h.start(env)
		if code := o.exit(); code != 1 {
			t.Errorf("%s: exit code %d, want 1", env, code)
		}
		expectAll(t, strings.Join(o.output.lines(), "\n"), says)
	}
	h.start("DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK=true", "DEBUG_HTTP_SERVER_ADDR=0.0.0.0:0", "ADDON_OPERATOR_TMP_DIR="+h.path("open/own")).ready()
}

func TestAPIServerInMemoryRefusesAWrongCommandLine(t *testing.T) {
	t.Parallel()
	for situation, test := range map[string]struct {
		args string
		want string
	}{
		"no directory":      {"apiserver", "--dir is required"},
		"unknown flag":      {"apiserver --port 1", "--port"},
		"a stray argument":  {"apiserver now", `"now"`},
		"a file for a home": {"apiserver --dir " + filepath.Join("doc.go", "x"), "doc.go"},
	} {
		t.Run(situation, func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command(program(), strings.Fields(test.args)...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), test.want) {
				t.Errorf("%v, %s; want an error with %q", err, out, test.want)
			}
		})
	}
}
