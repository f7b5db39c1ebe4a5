package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"

	"addon-operator/actors/metrics"
)

// rule is a metric as rule I2 names it. rare: it has no series while all goes well, or on
// kernels that do not tell the memory of processes.
type rule struct {
	kind, name, labels string
	rare               bool
}

// chapterI are the metrics of rules I2 and X11, without their prefix.
func chapterI() []rule {
	hook := "module hook binding queue activation"
	global := "hook binding queue activation"
	watch := "module hook binding queue kind"
	return []rule{
		{kind: "counter", name: "live_ticks"},
		{kind: "gauge", name: "binding_count", labels: "module hook"},
		{kind: "counter", name: "config_values_errors_total"},
		{kind: "counter", name: "modules_discover_errors_total"},
		{kind: "summary", name: "module_run_seconds", labels: "module activation"},
		{kind: "counter", name: "module_run_errors_total", labels: "module"},
		{kind: "counter", name: "module_delete_errors_total", labels: "module"},
		{kind: "summary", name: "module_helm_seconds", labels: "module activation"},
		{kind: "histogram", name: "helm_operation_seconds", labels: "activation operation"},
		{kind: "counter", name: "modules_helm_release_redeployed_total", labels: "module"},
		{kind: "counter", name: "modules_absent_resources_total", labels: "module resource"},
		{kind: "counter", name: "convergence_seconds", labels: "activation"},
		{kind: "counter", name: "convergence_total", labels: "activation"},
		{kind: "gauge", name: "mm_module_info", labels: "module enabled critical"},
		{kind: "gauge", name: "mm_module_enabled", labels: "module version"},
		{kind: "summary", name: "module_hook_run_seconds", labels: hook},
		{kind: "summary", name: "module_hook_run_user_cpu_seconds", labels: hook},
		{kind: "summary", name: "module_hook_run_sys_cpu_seconds", labels: hook},
		{kind: "gauge", name: "module_hook_run_max_rss_bytes", labels: hook, rare: true},
		{kind: "counter", name: "module_hook_errors_total", labels: hook},
		{kind: "counter", name: "module_hook_allowed_errors_total", labels: hook},
		{kind: "counter", name: "module_hook_success_total", labels: hook},
		{kind: "summary", name: "global_hook_run_seconds", labels: global},
		{kind: "summary", name: "global_hook_run_user_cpu_seconds", labels: global},
		{kind: "summary", name: "global_hook_run_sys_cpu_seconds", labels: global},
		{kind: "gauge", name: "global_hook_run_max_rss_bytes", labels: global, rare: true},
		{kind: "counter", name: "global_hook_errors_total", labels: global},
		{kind: "counter", name: "global_hook_allowed_errors_total", labels: global},
		{kind: "counter", name: "global_hook_success_total", labels: global},
		{kind: "counter", name: "task_wait_in_queue_seconds_total", labels: "module hook binding queue"},
		{kind: "gauge", name: "tasks_queue_length", labels: "queue"},
		{kind: "gauge", name: "tasks_queue_head_info", labels: "queue module task_type hook"},
		{kind: "histogram", name: "tasks_queue_action_duration_seconds", labels: "queue_name queue_action"},
		{kind: "counter", name: "tasks_queue_compaction_operations_total", labels: "queue_name hook"},
		{kind: "gauge", name: "kube_snapshot_objects", labels: watch},
		{kind: "counter", name: "kubernetes_client_watch_errors_total", labels: "error_type", rare: true},
		{kind: "counter", name: "kubernetes_client_request_result_total", labels: "host verb code"},
		{kind: "histogram", name: "kubernetes_client_request_latency_seconds", labels: "host verb"},
		{kind: "counter", name: "factory_informer_dead_total", labels: "gvr namespace", rare: true},
		{kind: "counter", name: "helm_fallback_total"},
		{kind: "counter", name: "hook_errors"},
		{kind: "counter", name: "hook_allowed_errors"},
		{kind: "counter", name: "module_run_errors"},
	}
}

// Every metric of the rules exists, with its type and its labels. I2, X11.
func TestMetricsOfTheRulesExist(t *testing.T) {
	m := metrics.New("p_")
	m.Watch(metrics.Sources{})
	all := map[string]metrics.Family{}
	for _, f := range m.Families() {
		all[f.Name] = f
	}
	for _, r := range chapterI() {
		f, ok := all["p_"+r.name]
		if got := strings.Join(f.Labels, " "); !ok || f.Type != r.kind || got != r.labels {
			t.Errorf("%s is %q with labels %q, the rule says %q and %q", r.name, f.Type, got, r.kind, r.labels)
		}
	}
}

// page reads the metrics of the running program.
func (o *operator) page() map[string]*dto.MetricFamily {
	o.fixture.t.Helper()
	request, err := http.NewRequestWithContext(o.fixture.ctx, http.MethodGet, o.public+"/metrics", http.NoBody)
	if err != nil {
		o.fixture.t.Fatal(err)
	}
	request.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		o.fixture.t.Fatal(err)
	}
	defer answer.Body.Close()
	families, body := map[string]*dto.MetricFamily{}, bufio.NewReader(answer.Body)
	for {
		f := &dto.MetricFamily{}
		switch err := protodelim.UnmarshalFrom(body, f); {
		case errors.Is(err, io.EOF):
			return families
		case err != nil:
			o.fixture.t.Fatalf("/metrics answers %s: %v", answer.Status, err)
		}
		families[f.GetName()] = f
	}
}

// absent are the metrics of the rules that are not on the page, and what is wrong with
// the others.
func absent(page map[string]*dto.MetricFamily, prefix string) (missing []string, wrong error) {
	for _, r := range chapterI() {
		f := page[prefix+r.name]
		if f == nil {
			if !r.rare {
				missing = append(missing, r.name)
			}
			continue
		}
		if got := strings.ToLower(f.GetType().String()); got != r.kind {
			wrong = errors.Join(wrong, fmt.Errorf("%s is a %s, want %s", r.name, got, r.kind))
		}
		want := slices.Sorted(slices.Values(strings.Fields(r.labels)))
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			if slices.Sort(labels); !slices.Equal(labels, want) {
				wrong = errors.Join(wrong, fmt.Errorf("%s has labels %q, want %q", r.name, labels, want))
				break
			}
		}
	}
	return missing, wrong
}

// Every metric of the rules is on the page of the program when there is something to
// tell, beside those of its hooks, its clients and its process. I1, I2, X11.
func TestMetricsOfTheRulesAreOnThePage(t *testing.T) {
	h := newFixture(t, "metrics")
	o := h.start()
	o.expect("task failed, will retry", "hook start.sh")
	h.setConfig(map[string]string{"global": "waits: short"}) // F8
	o.expect("task failed, will retry", "DiscoverModules")
	h.setConfig(map[string]string{"global": "waits: shorter"})
	o.ready()
	for i := range 30 { // more than 20 waiting runs of a hook are many
		h.createConfigMap(fmt.Sprint("seen-", i), "", map[string]string{"seen": "yes"})
	}
	missing := map[string]bool{}
	for _, r := range chapterI() {
		missing[r.name] = !r.rare
	}
	look := func() error {
		now, wrong := absent(o.page(), "addon_operator_")
		must(t, wrong)
		maps.DeleteFunc(missing, func(name string, due bool) bool { return !due || !slices.Contains(now, name) })
		if len(missing) > 0 {
			return fmt.Errorf("not on the page: %q", slices.Sorted(maps.Keys(missing)))
		}
		return nil
	}
	h.eventually("a crowd in the queue", func() error {
		_ = look() // the rest comes later
		for _, queue := range o.page()["addon_operator_tasks_queue_triggers"].GetMetric() {
			if queue.GetGauge().GetValue() > 20 {
				return nil
			}
		}
		return errNotYet
	})
	h.write("out/go", "")
	h.deleteConfigMap("well")
	o.expect("release is not as the module left it")
	h.setConfig(map[string]string{"badEnabled": "true"})
	o.expect("task failed, will retry", "module=bad", "RunModule")
	h.setConfig(map[string]string{"badEnabled": "no idea"})
	o.expect("ConfigMap", "refused")
	h.setConfig(map[string]string{"badEnabled": "false"})
	o.expect("task failed, will retry", "module=bad", "DeleteModule")
	h.eventually("all metrics of the rules", look)

	page := o.page()
	for _, name := range []string{"backups", "go_goroutines", "process_cpu_seconds_total", "addon_operator_actors", "addon_operator_kubernetes_client_rate_limiter_latency_seconds"} {
		if page[name] == nil {
			t.Errorf("%s is not on the page", name)
		}
	}
	for name, want := range map[string]string{
		"addon_operator_mm_module_info":    `critical="true" enabled="true" module="bad"`, // until its delete succeeds
		"addon_operator_mm_module_enabled": `module="well" version="1.2.3"`,
	} {
		if !hasLabels(page[name], want) {
			t.Errorf("no series {%s} among %v", want, page[name])
		}
	}
}

// hasLabels reports whether a family has a series with these pairs, in alphabetical order.
func hasLabels(f *dto.MetricFamily, pairs string) bool {
	return slices.ContainsFunc(f.GetMetric(), func(m *dto.Metric) bool {
		var all []string
		for _, l := range m.GetLabel() {
			all = append(all, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}
		return strings.Contains(strings.Join(all, " "), pairs)
	})
}
