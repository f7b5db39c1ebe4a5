package e2e

import (
	"fmt"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// What hooks have done is counted as what became of it: a result that is refused is an error and no success, a
// failure that is allowed is no other error, and all of them are timed. What an old name counts is the sum. I2, I3.
func TestRunsOfHooksAreCountedOnce(t *testing.T) {
	h := newFixture(t, "counters")
	o := h.start()
	for i, why := range []string{"hooks of this module may change", "KUBERNETES_PATCH_PATH", "addon_operator_mine", "exit code 1"} {
		o.expect("ERROR", "task failed, will retry", "refused.sh", why)
		h.setConfig(map[string]string{"global": fmt.Sprint("attempt: ", i)}) // F8
	}
	o.ready()
	page := o.page()
	series := func(name, labels string) (n float64) {
		for _, m := range page["addon_operator_"+name].GetMetric() {
			if hasLabels(&dto.MetricFamily{Metric: []*dto.Metric{m}}, labels) {
				n += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()+m.GetSummary().GetSampleCount())
			}
		}
		return n
	}
	allowed, refused := `hook="010-counted/hooks/allowed.sh"`, `hook="010-counted/hooks/refused.sh"`
	for _, c := range []struct {
		name, labels string
		want         float64
	}{
		{"module_hook_success_total", allowed, 0},
		{"module_hook_errors_total", allowed, 0},
		{"module_hook_allowed_errors_total", allowed, 2},
		{"module_hook_run_seconds", allowed, 2},
		{"module_hook_errors_total", refused, 4},
		{"module_hook_allowed_errors_total", refused, 0},
		{"module_hook_run_seconds", refused, 4 + series("module_hook_success_total", refused)},
		{"hook_errors", "", series("module_hook_errors_total", "") + series("global_hook_errors_total", "")},
		{"hook_allowed_errors", "", series("module_hook_allowed_errors_total", "") + series("global_hook_allowed_errors_total", "")},
		{"build_info", "version=", 1},
		{"kube_binding_state", `binding="maps" hook="010-counted/hooks/allowed.sh" kind="ConfigMap" module="counted" queue="one" state="complete"`, 1},
		{"kube_binding_state", `binding="maps" hook="010-counted/hooks/allowed.sh" kind="ConfigMap" module="counted" queue="two" state="complete"`, 1},
		{"actors", `actor="config"`, 1},
	} {
		if got := series(c.name, c.labels); got != c.want {
			t.Errorf("%s{%s} is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	if n := series("module_hook_success_total", refused); n < 1 {
		t.Errorf("%v runs of the hook have succeeded in the end", n)
	}
	for _, labels := range []string{allowed, refused} { // C30
		own := page["process_resident_memory_bytes"].GetMetric()
		if got := series("module_hook_run_max_rss_bytes", labels); len(own) > 0 && (got <= 0 || got >= own[0].GetGauge().GetValue()) {
			t.Errorf("a small hook seems to have used %v bytes", got)
		}
	}
	for _, m := range page["addon_operator_task_wait_in_queue_seconds_total"].GetMetric() {
		if hasLabels(&dto.MetricFamily{Metric: []*dto.Metric{m}}, `binding="kubernetes"`) {
			t.Errorf("a binding has the name of its type: %s", strings.TrimSpace(m.String()))
		}
	}
}
