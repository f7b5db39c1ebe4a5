package testkit

import (
	"fmt"
	"regexp"
	"strings"

	"addon-operator/actors/metrics"
)

// stepCounts writes how the runs of hooks were counted into the trace, as a scrape shows it.
func stepCounts(p *player, _ string) error {
	families, err := p.options.Metrics.Registry.Gather()
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), metrics.DefaultPrefix)
		if !regexp.MustCompile(`hook_(success_total|(allowed_)?errors(_total)?|run_seconds)$`).MatchString(name) {
			continue
		}
		for _, series := range f.GetMetric() {
			for _, l := range series.GetLabel() {
				name += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			// A series is either; the other one is 0.
			p.Trace.Add("%s: %v", name, series.GetCounter().GetValue()+float64(series.GetSummary().GetSampleCount()))
			name = strings.Fields(name)[0]
		}
	}
	return err
}
