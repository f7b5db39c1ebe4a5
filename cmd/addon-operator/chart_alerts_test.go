package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
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

// record is what Prometheus recorded, and what an alert makes of it.
type record struct {
	Alert  string
	Fires  string            // after this time; "" means that it stays quiet
	For    map[string]string // labels of the alert that fires, other than its name and severity
	Series []string
}

// Prometheus' own engine evaluates the alerts of the chart on recorded series: each fires when
// it should, and there is a record on which it stays quiet.
func TestAlertsFireOnRecordedSeries(t *testing.T) {
	data, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var records []record
	if err := yaml.UnmarshalStrict(data, &records); err != nil {
		t.Fatal(err)
	}
	alerts := chartAlerts(t)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for i, r := range records {
		if r.Fires == "" {
			quiet[r.Alert] = true
		} else {
			fires[r.Alert] = true
		}
		t.Run(fmt.Sprintf("%d_%s", i+1, r.Alert), func(t *testing.T) {
			alert, ok := alerts[r.Alert]
			if !ok {
				t.Fatal("there is no such alert")
			}
			after, labels := alert.on(t, r.parse(t))
			if after != r.Fires {
				t.Errorf("it fires after %q, want %q", after, r.Fires)
			}
			if !maps.Equal(labels, r.For) {
				t.Errorf("it fires for %v, want %v", labels, r.For)
			}
		})
	}
	for name := range alerts {
		if !fires[name] || !quiet[name] {
			t.Errorf("%s: it fires on a record: %v, and is quiet on one: %v; want both", name, fires[name], quiet[name])
		}
	}
}

// chartAlert is an alert as the chart renders it.
type chartAlert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// chartAlerts are the alerts of the chart by name.
func chartAlerts(t *testing.T) map[string]chartAlert {
	t.Helper()
	var rules struct {
		Spec struct {
			Groups []struct{ Rules []chartAlert }
		}
	}
	if err := yaml.Unmarshal([]byte(rendered(t, everything)["prometheusrule.yaml"]), &rules); err != nil {
		t.Fatal(err)
	}
	all := map[string]chartAlert{}
	for _, alert := range rules.Spec.Groups[0].Rules {
		all[alert.Alert] = alert
	}
	return all
}

// on evaluates the alert on the series. It returns the time after which it first fires, as it is
// written in records, and the labels of what fires then; "" and nothing when it never fires.
func (a chartAlert) on(t *testing.T, recorded series) (after string, of map[string]string) {
	t.Helper()
	pending, err := time.ParseDuration(a.For)
	if err != nil {
		t.Fatal(err)
	}
	parsing := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parsing})
	start := time.UnixMilli(0)
	query, err := engine.NewRangeQuery(context.Background(), recorded, nil, a.Expr, start, start.Add(time.Hour), scrape)
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	result, err := query.Exec(context.Background()).Matrix()
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
	if len(of) == 0 {
		of = nil
	}
	return fmt.Sprintf("%dm", int(first.Minutes())), of
}

// series are recorded series, as a storage of Prometheus.
type series []promql.Series

func (r record) parse(t *testing.T) series {
	t.Helper()
	var all series
	for _, line := range r.Series {
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

// Querier implements storage.Queryable.
func (s series) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: s.choose}, nil
}

func (s series) choose(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{}
	for _, one := range s {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.Metric.Get(m.Name)) }) {
			set.left = append(set.left, one)
		}
	}
	return set
}

// seriesSet implements storage.SeriesSet.
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
