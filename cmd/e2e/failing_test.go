package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// retried waits for the first failure of web's run, mends the file and changes the
// ConfigMap, which cuts the waiting short (F8).
func (h *fixture) retried(o *operator, file, fixed string, says ...string) {
	h.t.Helper()
	line := o.expect("ERROR", "task failed, will retry", "module=web", "attempt=1")
	expectAll(h.t, line, says...)
	h.write(file, fixed)
	h.setConfig(map[string]string{"global": "fixed: yes"})
	o.ready()
	h.awaitRevisions("web", "1:deployed")
}

const quietHook = "#!/usr/bin/env bash\n[[ ${1:-} == --config ]] && echo '{\"configVersion\": \"v1\", \"beforeHelm\": 1}'\nexit 0\n"

// beforeHelm is a hook that runs body before Helm.
func beforeHelm(body string) string {
	return strings.Replace(quietHook, "exit 0\n", "[[ ${1:-} == --config ]] && exit\n"+body+"\n", 1)
}

// A module whose hook has no valid configuration is tried again; queues other than main go on
// meanwhile. C6, F1, F6.
func TestModuleHookPrintsGarbage(t *testing.T) {
	h := newFixture(t, "web")
	h.write("global-hooks/watch.sh", `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "kubernetes": [{"kind": "ConfigMap", "queue": "other", "nameSelector": {"matchNames": ["seen"]}, "namespace": {"nameSelector": {"matchNames": ["'$NAMESPACE'"]}}}]}'
  exit
fi
jq -r '.[].type' "$BINDING_CONTEXT_PATH" >> "$OUT/global"
`)
	h.write("modules/010-web/hooks/x.sh", "#!/usr/bin/env bash\necho 'bash: line 1: command not found'\n")
	o := h.start()
	o.expect("task failed, will retry", "attempt=1")
	h.createConfigMap("seen", "", nil)
	h.eventually("a hook in another queue", func() error {
		if h.read("out/global") != "Synchronization\nEvent\n" {
			return errNotYet
		}
		return nil
	})
	o.seen = 0
	h.retried(o, "modules/010-web/hooks/x.sh", quietHook, "010-web/hooks/x.sh", "it printed: bash: line 1: command not found", "in=5")
}

// A typing error in a module hook's bindings is reported with its place.
func TestModuleHookHasAnUnknownBinding(t *testing.T) {
	h := newFixture(t, "web")
	h.write("modules/010-web/hooks/x.sh", `#!/usr/bin/env bash
echo '{"configVersion": "v1", "beforeAll": 1, "kubernetes": [{"kind": "Pod", "jqFilter": "] wrong", "labels": {}}]}'
`)
	h.retried(h.start(), "modules/010-web/hooks/x.sh", quietHook, "010-web/hooks/x.sh", "beforeAll", "kubernetes[0].labels", "kubernetes[0].jqFilter")
}

// A patch that is no JSON patch, or that touches what it may not, fails the hook, and
// nothing of its run is applied. D17, D20, D21, D26.
func TestMalformedPatches(t *testing.T) {
	t.Parallel()
	for situation, c := range map[string]struct {
		body string
		says []string
	}{
		"no JSON":            {`echo 'size: 1' > "$VALUES_JSON_PATCH_PATH"`, []string{"VALUES_JSON_PATCH_PATH", "JSON"}},
		"unknown operation":  {`echo '[{"op": "set", "path": "/web/size", "value": 1}]' > "$VALUES_JSON_PATCH_PATH"`, []string{"VALUES_JSON_PATCH_PATH", `"set"`}},
		"somebody else's":    {`echo '[{"op": "add", "path": "/global/size", "value": 1}]' > "$CONFIG_VALUES_JSON_PATCH_PATH"`, []string{"config values patch", "/global/size", "/web"}},
		"missing path":       {`echo '[{"op": "remove", "path": "/web/nothing"}]' > "$VALUES_JSON_PATCH_PATH"`, []string{"values patch", "/web/nothing"}},
		"the good one first": {`echo '[{"op": "add", "path": "/web/size", "value": "lost"}]' > "$CONFIG_VALUES_JSON_PATCH_PATH"; echo '[{"op": "add"}]' > "$VALUES_JSON_PATCH_PATH"`, []string{"VALUES_JSON_PATCH_PATH", "path"}},
	} {
		t.Run(situation, func(t *testing.T) {
			h := newFixture(t, "web")
			h.write("modules/010-web/hooks/x.sh", beforeHelm(c.body))
			h.retried(h.start(), "modules/010-web/hooks/x.sh", quietHook, append(c.says, "010-web/hooks/x.sh")...)
			h.awaitConfigMap("web", "size", "small")
			if config := h.config()["web"]; config != "" {
				t.Errorf("the refused run has written to the ConfigMap: %q", config)
			}
		})
	}
}

// A hook that fails has written nothing, whatever its files hold. C26.
func TestFailedHookAppliesNothing(t *testing.T) {
	h := newFixture(t, "web")
	h.write("modules/010-web/hooks/x.sh", beforeHelm(`echo '[{"op": "add", "path": "/web/size", "value": "lost"}]' | tee "$CONFIG_VALUES_JSON_PATCH_PATH" > "$VALUES_JSON_PATCH_PATH"
echo "the last words" >&2
exit 7`))
	h.retried(h.start(), "modules/010-web/hooks/x.sh", quietHook, "010-web/hooks/x.sh", "exit code 7", "the last words")
	h.awaitConfigMap("web", "size", "small")
	if config := h.config()["web"]; config != "" {
		t.Errorf("the failed run has written to the ConfigMap: %q", config)
	}
}

// A chart that does not render is reported with its template, before anything is applied.
func TestChartDoesNotRender(t *testing.T) {
	h := newFixture(t, "web")
	h.write("modules/010-web/templates/broken.yaml", "a: {{ .Values.web.missing.deeper }}\n")
	o := h.start()
	line := o.expect("ERROR", "task failed, will retry", "module=web")
	expectAll(t, line, "templates/broken.yaml", "web.missing.deeper")
	if got := h.revisions("web"); got != "" {
		t.Errorf("there is a release: %s", got)
	}
	h.write("modules/010-web/templates/broken.yaml", "")
	o.expect("release", "action=installed") // the second attempt, by itself
	o.ready()
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
	if _, err := namespaces.Create(h.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
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
	h.forward(port)
	o.ready()
	h.awaitRevisions("web", "1:deployed")
}

// forward connects a port with the API server.
func (h *fixture) forward(port string) {
	h.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", h.kubeconfig)
	if err != nil {
		h.t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		h.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port) //nolint:noctx // closed with the test
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return // closed
			}
			to, err := net.Dial("tcp", server.Host) //nolint:noctx // ends with its other side
			if err != nil {
				from.Close()
				continue
			}
			pipe := func(a, b net.Conn) {
				_, _ = io.Copy(a, b) // one side has ended: end the other
				a.Close()
			}
			go pipe(from, to)
			go pipe(to, from)
		}
	}()
}
