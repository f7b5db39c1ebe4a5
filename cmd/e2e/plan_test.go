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
