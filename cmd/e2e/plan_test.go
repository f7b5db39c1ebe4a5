package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
	"addon-operator/testkit/golden"
)

// gate stands before the API server and keeps a log of what would change something there.
type gate struct {
	kubeconfig string

	mu     sync.Mutex
	writes []string
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{}
	_, g.kubeconfig = inFront(t, devclustertest.Start(t).RESTConfig(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") != "All" {
			g.mu.Lock()
			g.writes = append(g.writes, r.Method+" "+r.URL.Path)
			g.mu.Unlock()
		}
		next.ServeHTTP(w, r)
	})
	return g
}

// closed expects that nothing was written since the last call.
func (g *gate) closed(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.writes) > 0 {
		t.Errorf("a plan wrote to the cluster: %q", g.writes)
	}
	g.writes = nil
}

func (g *gate) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes = nil
}

// plan runs the command and returns its output and exit code; env is that of the operator.
func (h *fixture) plan(env []string, args ...string) (stdout, stderr string, code int) {
	h.t.Helper()
	var out, problems strings.Builder
	cmd := exec.Command(program(), append([]string{"plan"}, args...)...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, h.dir, &out, &problems
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	stable := strings.NewReplacer(h.namespace, "NAMESPACE", h.dir, "DIR")
	return stable.Replace(out.String()), problems.String(), cmd.ProcessState.ExitCode()
}

// The running operator says what it would do with another ConfigMap: the reasons, the order
// and the objects; then it does exactly that. Secrets are masked, nothing is written, and the
// exit code says whether anything would be done.
func TestPlanOfTheRunningOperator(t *testing.T) {
	h, g := newFixture(t, "plan"), newGate(t)
	h.setConfig(map[string]string{"frozenMaintenance": "NoResourceReconciliation"})
	o := h.start("KUBECONFIG=" + g.kubeconfig).ready()
	h.awaitRevisions("web", "1:deployed")
	h.awaitConfigMap("web", "fromHook", "hook")
	g.forget()

	if out, _, code := h.plan(o.env, "--detailed-exitcode"); code != 0 || !strings.Contains(out, "Nothing would be done. Modules: 3 unchanged, 0 kept") {
		t.Errorf("nothing to do: exit code %d\n%s", code, out)
	}
	out, problems, code := h.plan(o.env, "-f", "next.yaml", "--detailed-exitcode")
	if code != 2 || problems != "" {
		t.Errorf("exit code %d, want 2: %s", code, problems)
	}
	golden.File(t, "testdata/plan_running.golden", out)
	if shown, _, _ := h.plan(o.env, "-f", "next.yaml", "--show-secrets"); !strings.Contains(shown, "+  password: hunter2") || strings.Contains(out, "hunter2") {
		t.Errorf("secrets: masked\n%s\nshown\n%s", out, shown)
	}
	out, problems, code = h.plan(o.env, "-f", "bad.yaml")
	if code != 1 || !strings.Contains(out, "refused as a whole") || !strings.Contains(out, "size") || !strings.Contains(problems, "would be refused") {
		t.Errorf("a ConfigMap that is refused: exit code %d\n%s%s", code, out, problems)
	}
	var plan struct {
		Modules []struct{ Module, Step, Release string }
		Summary map[string]int
	}
	out, _, _ = h.plan(o.env, "-f", "next.yaml", "-o", "json")
	if err := json.Unmarshal([]byte(out), &plan); err != nil || plan.Summary["stop"] != 1 {
		t.Errorf("JSON: %v\n%s", err, out)
	}
	g.closed(t)
	journal := h.journal()

	// What was planned is what happens.
	h.setConfig(map[string]string{"web": "size: big", "oldEnabled": "false", "extraEnabled": "true", "frozenEnabled": "false"})
	o.expect("modules discovered", "keep=[frozen]", "run=[web extra]", "delete=[old]")
	h.awaitRevisions("web", "1:superseded 2:deployed")
	h.awaitRevisions("extra", "1:deployed")
	h.awaitRevisions("old", "")
	h.eventually("the second converge", func() error {
		if out, _, code := h.plan(o.env, "--detailed-exitcode"); code != 0 {
			return fmt.Errorf("a plan still has: %s", out)
		}
		return nil
	})
	if before := "onStartup beforeHelm"; journal != before {
		t.Errorf("a plan ran hooks: %q, want %q", journal, before)
	}
}

// Without an operator the plan is made from files and the cluster. Values of hooks are
// unknown, and it says so; hooks are not run, enabled scripts are.
func TestPlanFromFiles(t *testing.T) {
	h, g := newFixture(t, "plan"), newGate(t)
	env := append(h.environment(), "KUBECONFIG="+g.kubeconfig, "DEBUG_HTTP_SERVER_ADDR=127.0.0.1:"+freePort(t))
	out, problems, code := h.plan(env, ".", "--detailed-exitcode")
	if code != 2 || problems != "" {
		t.Errorf("exit code %d, want 2: %s", code, problems)
	}
	golden.File(t, "testdata/plan_files.golden", out)
	if _, problems, code := h.plan(env); code != 1 || !containsAll(problems, []string{"no operator answers"}) {
		t.Errorf("there is no operator: exit code %d, %s", code, problems)
	}
	if _, problems, code := h.plan(env, "-o", "xml"); code != 2 || !strings.Contains(problems, "output:") {
		t.Errorf("bad flags: exit code %d, %s", code, problems)
	}
	g.closed(t)
	if h.journal() != "" || slices.Contains([]string{h.revisions("web"), h.revisions("old")}, "1:deployed") {
		t.Errorf("a plan did something: hooks %q, releases %q", h.journal(), h.revisions("web"))
	}
}

// enabledOnlyThere is a ConfigMap without which both modules are off.
const enabledOnlyThere = `
apiVersion: v1
kind: ConfigMap
metadata: {name: addon-operator}
data:
  oneEnabled: "true"
  twoEnabled: "true"
  one: "size: 2"
`

// awaitRefusal waits until the operator says that it is ready, and that the ConfigMap is refused.
func (h *fixture) awaitRefusal(o *operator) {
	h.t.Helper()
	h.eventually("a refusal in /readyz?verbose", func() error {
		if status, body := get(o.public + "/readyz?verbose"); status != http.StatusOK || !strings.Contains(body, "REFUSED") {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
}

func eventTexts(events []corev1.Event) (all []string) {
	for _, e := range events {
		all = append(all, fmt.Sprintf("%s %s: %s (a %s with a UID: %t)", e.Type, e.Reason, e.Message, e.InvolvedObject.Kind, e.InvolvedObject.UID != ""))
	}
	return all
}

const onConfigMap = " (a ConfigMap with a UID: true)"

// awaitEvent waits for an event whose text, 'TYPE REASON: MESSAGE', has all these parts. That on
// a ConfigMap that is deleted has no UID; that on one that is there is onConfigMap.
func (h *fixture) awaitEvent(parts ...string) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("an event with %q", parts), func() error {
		list, err := h.client.CoreV1().Events(h.namespace).List(h.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		texts := eventTexts(list.Items)
		if !slices.ContainsFunc(texts, func(text string) bool { return containsAll(text, parts) }) {
			return fmt.Errorf("there are %v", texts)
		}
		return nil
	})
}

// With the option, a ConfigMap that is not valid at the start, or is gone, is no outage: the last
// valid values are in force, and every status says so, until the ConfigMap is fixed. P3, P1.
func TestStartWithLastValidConfig(t *testing.T) {
	const option = "ADDON_OPERATOR_START_WITH_LAST_VALID_CONFIG=true"
	h := newFixture(t, "configmap")
	h.write("modules/values.yaml", "global: {zone: a}\n")
	h.write("cm.yaml", enabledOnlyThere)
	h.kubectl("create", "-n", h.namespace, "-f", h.path("cm.yaml"))
	h.start(option).ready().terminate()
	h.awaitRevisions("one", "1:deployed")
	secret, err := h.client.CoreV1().Secrets(h.namespace).Get(h.ctx, "addon-operator-last-valid", metav1.GetOptions{})
	if err != nil || secret.Type != "addon-operator/last-valid-config" || string(secret.Data["config.one"]) != "size: 2" {
		t.Fatalf("the last valid values were not kept: %v, %v", secret, err)
	}

	h.setConfig(map[string]string{"one": "size: big"})
	o := h.start(option)
	o.expect("WARN", "the operator starts with the last valid values", "Secret "+h.namespace+"/addon-operator-last-valid")
	o.expect("ERROR", "the last valid values stay in force until they are fixed", "one.size")
	o.ready()
	const refused = "ConfigMap and Secret are refused"
	if _, body := get(o.public + "/readyz?verbose"); !strings.Contains(body, refused) || strings.Contains(body, "one.size") {
		t.Errorf("/readyz?verbose does not tell it, or shows why:\n%s", body)
	}
	const notice = "ConfigMap and Secret are refused; their last valid content stays in force"
	expectAll(t, o.body("/"), notice)
	expectAll(t, o.body("/metrics"), "addon_operator_config_values_refused 1\n")
	if list := o.command("module", "list"); !strings.HasPrefix(list, notice) || !strings.Contains(list, "one.size") {
		t.Errorf("module list does not begin with it:\n%s", list)
	}
	h.awaitEvent("Warning Refused", "the last valid ones stay in force", "one.size")
	h.setConfig(map[string]string{"one": "size: 3"})
	h.awaitConfigMap("one", "size", "3")
	h.awaitEvent("Normal Accepted", "in force")
	expectAll(t, o.body("/metrics"), "addon_operator_config_values_refused 0\n")
	o.terminate()

	h.deleteConfigMap("addon-operator")
	o = h.start(option).ready()
	h.awaitRefusal(o)
	h.awaitConfigMap("one", "size", "3")
	h.kubectl("create", "configmap", "addon-operator", "-n", h.namespace)
	o.expect("config values changed", "flags=true")
	h.awaitRevisions("one", "")
}
