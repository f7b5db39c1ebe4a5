package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"addon-operator/actors/metrics"
	"addon-operator/testkit/golden"
)

// docs/metrics.md lists all metrics, from the registry (I2).
func TestMetricsAreDocumented(t *testing.T) {
	all := families(t)
	var table strings.Builder
	table.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range sortedFamilies(all) {
		labels := make([]string, len(f.Labels))
		for i, label := range f.Labels {
			labels[i] = "`" + label + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, strings.Join(labels, ", "), strings.ReplaceAll(f.Help, "|", `\|`))
	}
	const path = "docs/metrics.md"
	document, err := os.ReadFile(repository + path)
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, repository+path, between(t, string(document), "<!-- metrics -->", "<!-- end of metrics -->", table.String()))
}

func sortedFamilies(all map[string]metrics.Family) []metrics.Family {
	var list []metrics.Family
	for _, f := range all {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b metrics.Family) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// The metrics pass the lint of Prometheus, but for names that the rules fix, because old
// dashboards know them.
func TestMetricsPassTheLint(t *testing.T) {
	const total = `counter metrics should have "_total" suffix`
	old := map[string]string{
		"addon_operator_live_ticks":          total,                                                                   // I2
		"addon_operator_convergence_seconds": total,                                                                   // I2
		"addon_operator_binding_count":       `non-histogram and non-summary metrics should not have "_count" suffix`, // I2
		// Names from before the suffix was the rule, which is why they are aliases now. X11.
		"addon_operator_hook_errors":         total,
		"addon_operator_hook_allowed_errors": total,
		"addon_operator_module_run_errors":   total,
	}
	types := map[string]dto.MetricType{"counter": dto.MetricType_COUNTER, "gauge": dto.MetricType_GAUGE, "histogram": dto.MetricType_HISTOGRAM, "summary": dto.MetricType_SUMMARY}
	var page []*dto.MetricFamily
	for _, f := range sortedFamilies(families(t)) {
		kind := types[f.Type]
		one := &dto.Metric{}
		for _, label := range f.Labels {
			one.Label = append(one.Label, &dto.LabelPair{Name: &label, Value: new(string)})
		}
		page = append(page, &dto.MetricFamily{Name: &f.Name, Help: &f.Help, Type: &kind, Metric: []*dto.Metric{one}})
	}
	problems, err := promlint.NewWithMetricFamilies(page).Lint()
	if err != nil {
		t.Fatal(err)
	}
	excused := map[string]bool{}
	for _, p := range problems {
		if old[p.Metric] == p.Text {
			excused[p.Metric] = true
			continue
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if len(excused) != len(old) {
		t.Errorf("only %v need an excuse", excused)
	}
}
