package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// dump asks the running operator for its actors, as a person would in its Pod.
func (o *operator) dump(args ...string) string {
	o.fixture.t.Helper()
	out, err := o.run("", append([]string{"--dump-actors"}, args...)...)
	if err != nil {
		o.fixture.t.Fatalf("--dump-actors %s: %v\n%s", args, err, out)
	}
	return out
}

// node is what the test reads of the JSON and YAML forms of the dump.
type node struct {
	Path, State string
	Restarts    int
	Status      struct {
		Phase    string
		Length   int
		Bindings []struct{ Hook, Phase, Message string }
		Failing  []struct {
			Task, Error, RetryAt string
			Attempts             int
		}
	}
	Children []node
}

func (n *node) find(path string) *node {
	if n.Path == path {
		return n
	}
	for i := range n.Children {
		if found := n.Children[i].find(path); found != nil {
			return found
		}
	}
	return nil
}

// Whoever looks at an operator with a failing module sees it from every side: the dump of
// the actors, /queue, /readyz, /metrics, the log. Issue 2, "Proof"; J1–J3, I2, C27.
func TestFailingModuleIsSeenFromEverySide(t *testing.T) {
	h := newFixture(t, "failing")
	o := h.start()
	o.expect("task failed, will retry", "module=failing", "attempt=1", "the database is away")

	t.Run("queue", func(t *testing.T) {
		// What hooks print may hold secrets: the public page says where to look.
		for base, why := range map[string]string{o.public: "the log and the debug address show why", "http://" + o.debug: "the database is away"} {
			_, body := get(base + "/queue")
			expectAll(t, body, `Queue "main": 3 tasks`, "1. RunModule failing", "2. RunModule waiting", "waits until", why)
		}
	})
	t.Run("probes", func(t *testing.T) {
		for path, want := range map[string]string{
			"/healthz": "200 ok", "/readyz": "500 not ready", "/readyz?verbose": "500 not ready",
			"/status/converge": "200 STARTUP_CONVERGE_IN_PROGRESS: 3 tasks", "/status/converge?output=json": "200 {",
		} {
			status, body := get(o.public + path)
			if got := fmt.Sprint(status, " ", body); !strings.HasPrefix(got, want) {
				t.Errorf("%s answers %s, want %s", path, got, want)
			}
		}
		if status, _ := get(o.public + "/actors"); status != http.StatusNotFound {
			t.Errorf("/actors, which is for the debug address, answers %d on the public one", status)
		}
	})
	t.Run("metrics", func(t *testing.T) { checkMetrics(t, o) })
	t.Run("log", func(t *testing.T) { checkLog(t, o) })
	t.Run("dump as text", func(t *testing.T) {
		text := o.dump()
		expectAll(t, text, "queue/main", "module/well", "ready revision=1", "module/failing", "module/waiting")
		line := regexp.MustCompile(`starting BACKOFF RunModule: attempt \d+ failed, next at \d\d:\d\d:\d\d: hook 020-failing/hooks/fail.sh: exit code 1: the database is away`)
		if !line.MatchString(text) {
			t.Errorf("nothing that matches %s in:\n%s", line, text)
		}
	})
	t.Run("dump as JSON, YAML, and through the socket", func(t *testing.T) {
		for _, args := range [][]string{{"--output", "json"}, {"-o", "yaml"}, {"-o", "json", "--debug-address="}} {
			var roots []node
			if err := yaml.Unmarshal([]byte(o.dump(args...)), &roots); err != nil || len(roots) != 1 {
				t.Fatalf("%s: %d roots, %v", args, len(roots), err)
			}
			checkDump(t, &roots[0])
		}
	})

	h.setConfig(map[string]string{"failingEnabled": "false"})
	o.ready() // the disabled module holds nothing up (E11)
	// The last step of the first reload may have begun before the edit came: then one more follows.
	h.becomes("the end of the reload", "STARTUP_CONVERGE_DONE\nCONVERGE_WAIT_TASK\n", func() string { return o.body("/status/converge") })
}

func checkDump(t *testing.T, root *node) {
	t.Helper()
	for path, want := range map[string]string{"well": "ready", "failing": "starting", "waiting": "waiting"} {
		module := root.find("operator/module/" + path)
		if module == nil || module.Status.Phase != want {
			t.Errorf("module %s is %+v, want phase %s", path, module, want)
		}
	}
	failing := root.find("operator/module/failing")
	if len(failing.Status.Failing) != 1 {
		t.Fatalf("failing tasks: %+v", failing.Status)
	}
	if f := failing.Status.Failing[0]; f.Attempts < 1 || f.RetryAt == "" || !strings.Contains(f.Error, "the database is away") {
		t.Errorf("the failing task is %+v", f)
	}
	if queue := root.find("operator/queue/main"); queue == nil || queue.Status.Length != 3 {
		t.Errorf("queue main: %+v", queue)
	}
	for _, name := range []string{"config", "converge", "global-hooks", "monitors", "schedule"} {
		if root.find("operator/"+name) == nil {
			t.Errorf("no actor %s", name)
		}
	}
}

func checkMetrics(t *testing.T, o *operator) {
	t.Helper()
	families := o.page()
	value := func(name string, labels ...string) (sum float64) {
		for _, m := range families[name].GetMetric() {
			text := fmt.Sprint(m.GetLabel())
			if containsAll(text, labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()+m.GetSummary().GetSampleCount())
			}
		}
		return sum
	}
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"addon_operator_module_run_errors_total", []string{`"failing"`}, 1},
		{"addon_operator_module_hook_errors_total", []string{`"failing"`, `"020-failing/hooks/fail.sh"`, `"beforeHelm"`, `"main"`}, 1},
		{"addon_operator_module_hook_success_total", []string{`"well"`}, 2},
		{"addon_operator_module_run_seconds", []string{`"well"`, `"OperatorStartup"`}, 1},
		{"addon_operator_module_helm_seconds", []string{`"well"`}, 1},
		{"addon_operator_mm_module_enabled", []string{`"well"`}, 1},
		{"addon_operator_binding_count", []string{`"010-well/hooks/well.sh"`}, 2},
		{"addon_operator_tasks_queue_length", []string{`"main"`}, 3},
	} {
		if got := value(c.name, c.labels...); got < c.want {
			t.Errorf("%s%v is %v, want %v or more", c.name, c.labels, got, c.want)
		}
	}
	if families["addon_operator_live_ticks"] == nil {
		t.Error("no live_ticks")
	}
}

// checkLog: elsewhere than on a terminal each line is a JSON record, and the output of
// hooks is in it line by line, with its labels.
func checkLog(t *testing.T, o *operator) {
	t.Helper()
	o.output.mu.Lock()
	raw := string(o.output.data)
	o.output.mu.Unlock()
	for line := range strings.Lines(raw) {
		var record struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" || record.Level == "" || record.Msg == "" {
			t.Errorf("not a record (%v): %s", err, line)
		}
	}
	for _, stream := range []string{"stdout", "stderr"} {
		if n := o.count("a line on "+stream, "module=well", "hook=010-well/hooks/well.sh", "queue=main", "binding=onStartup", "task="); n != 1 {
			t.Errorf("the hook's line on %s is %d times in the log with its labels, want 1", stream, n)
		}
	}
}

// The stop comes before the operator is up.
func TestStopWhileTheAPIServerIsAway(t *testing.T) {
	h := newFixture(t, "web")
	o := h.start("KUBE_SERVER=https://127.0.0.1:" + freePort(t))
	o.expect("will retry")
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
