package checks

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"sigs.k8s.io/yaml"
)

// scrape is how often recorded series have a sample, and alerts are evaluated.
const scrape = time.Minute

// alert is one of the chart, as deploy/manifests has it.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) map[string]alert {
	t.Helper()
	var rules struct {
		Spec struct {
			Groups []struct{ Rules []alert }
		}
	}
	_, text, _ := strings.Cut(read(t, "deploy/manifests/prometheus.yaml"), "\nkind: PrometheusRule\n")
	if err := yaml.Unmarshal([]byte(text), &rules); err != nil || len(rules.Spec.Groups) != 1 {
		t.Fatal(rules, err)
	}
	all := map[string]alert{}
	for _, a := range rules.Spec.Groups[0].Rules {
		all[a.Alert] = a
	}
	return all
}

// Prometheus' own engine evaluates the alerts on recorded series: each fires when it should, and there is a record on
// which it stays quiet. Each has a section of docs/alerts.md.
func TestAlertsFireOnRecordedSeries(t *testing.T) {
	var records []struct {
		Alert  string
		Fires  string            // after this time; "" means that it stays quiet
		For    map[string]string // labels of the alert that fires, other than its name and severity
		Series []string
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, ".ci/checks/testdata/alerts.yaml")), &records); err != nil {
		t.Fatal(err)
	}
	all, fires, quiet := alerts(t), map[string]bool{}, map[string]bool{}
	for i, r := range records {
		quiet[r.Alert], fires[r.Alert] = quiet[r.Alert] || r.Fires == "", fires[r.Alert] || r.Fires != ""
		t.Run(fmt.Sprintf("%d_%s", i+1, r.Alert), func(t *testing.T) {
			after, labels := all[r.Alert].on(t, recorded(t, r.Series))
			if after != r.Fires || !maps.Equal(labels, r.For) {
				t.Errorf("it fires after %q for %v, want %q for %v", after, labels, r.Fires, r.For)
			}
		})
	}
	runbooks := read(t, "docs/alerts.md")
	for name := range all {
		if !fires[name] || !quiet[name] || !strings.Contains(runbooks, "\n## "+name+"\n") {
			t.Errorf("%s: it fires on a record: %v, is quiet on one: %v; want both, and a section of docs/alerts.md", name, fires[name], quiet[name])
		}
	}
	if sections := strings.Count(runbooks, "\n## AddonOperator"); sections != len(all) {
		t.Errorf("docs/alerts.md has %d sections for %d alerts", sections, len(all))
	}
}

// on evaluates the alert on series. It returns the time after which it first fires, and the labels of what fires then.
func (a alert) on(t *testing.T, all series) (after string, of map[string]string) {
	t.Helper()
	pending, err := time.ParseDuration(a.For)
	if err != nil {
		t.Fatal(err)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{})})
	start := time.UnixMilli(0)
	query, err := engine.NewRangeQuery(t.Context(), all, nil, a.Expr, start, start.Add(time.Hour), scrape)
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	result, err := query.Exec(t.Context()).Matrix()
	if err != nil {
		t.Fatal(err)
	}
	first := time.Duration(-1)
	for _, one := range result {
		since, previous := time.Duration(0), time.Duration(-1)
		for _, point := range one.Floats {
			at := time.Duration(point.T) * time.Millisecond
			if previous < 0 || at-previous > scrape {
				since = at
			}
			previous = at
			if at-since >= pending && (first < 0 || at < first) {
				first, of = at, one.Metric.Map()
			}
		}
	}
	if first < 0 {
		return "", nil
	}
	return fmt.Sprintf("%dm", int(first.Minutes())), of
}

// series are recorded series, as a storage of Prometheus, and a set of them.
type series []promql.Series

func recorded(t *testing.T, lines []string) (all series) {
	t.Helper()
	for _, line := range lines {
		of, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		one := promql.Series{Metric: of}
		for i, v := range values {
			if !v.Omitted {
				one.Floats = append(one.Floats, promql.FPoint{T: int64(i) * scrape.Milliseconds(), F: v.Value})
			}
		}
		all = append(all, one)
	}
	return all
}

func (s series) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		left := slices.Clone(s)
		return &seriesSet{left: slices.DeleteFunc(left, func(one promql.Series) bool {
			return slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.Metric.Get(m.Name)) })
		})}
	}}, nil
}

type seriesSet struct{ at, left series }

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[:1], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return promql.NewStorageSeries(s.at[0]) }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// Alerts and dashboard select metrics of docs/metrics.md by labels that these have.
func TestAlertsAndDashboardKnowTheMetrics(t *testing.T) {
	metrics := map[string]string{"process_start_time_seconds": ""} // of Prometheus' own collector
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| (.*?) \\|").FindAllStringSubmatch(read(t, "docs/metrics.md"), -1) {
		metrics[m[1]] = m[3] + " pod instance namespace job container cluster" // these are of a target
		switch m[2] {
		case "histogram":
			metrics[m[1]+"_bucket"] = metrics[m[1]] + " le"
		case "summary":
			metrics[m[1]+"_sum"], metrics[m[1]+"_count"] = metrics[m[1]], metrics[m[1]]
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/chart/dashboards/addon-operator.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	expressions := map[string]string{}
	for name, a := range alerts(t) {
		expressions[name] = a.Expr
	}
	for _, p := range dashboard.Panels {
		for i, target := range p.Targets {
			expressions[fmt.Sprintf("panel %s, target %d", p.Title, i+1)] = target.Expr
		}
	}
	for where, expression := range expressions {
		tree, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
			selector, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			has, known := metrics[selector.Name]
			for _, m := range selector.LabelMatchers {
				if !known || m.Name != "__name__" && !regexp.MustCompile(`\b`+m.Name+`\b`).MatchString(has) {
					t.Errorf("%s: %s has no label %s, or does not exist", where, selector.Name, m.Name)
				}
			}
			return nil
		})
	}
}
